/* task/wav.c - RIFF/WAVE, PCM, 16 bits, one channel; other chunks are skipped. */
#include "task/wav.h"

#include <string.h>

#include "task/content.h"
#include "io/file.h"

static uint32_t little(const char *p, int bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint32_t)(unsigned char)p[i] << (8 * i);
    return value;
}

/* Chunk `name` of a file, and its size, cut to what is there; NULL: none. */
static const char *find_chunk(const lnt_content *c, const char *name, size_t *size)
{
    for (size_t at = 12; at + 8 <= c->bytes;) {
        const size_t claimed = little(c->data + at + 4, 4), left = c->bytes - at - 8;
        *size = claimed < left ? claimed : left;
        if (!memcmp(c->data + at, name, 4)) return c->data + at + 8;
        at += 8 + *size + *size % 2;
    }
    return NULL;
}

static lnt_status decode(lnt_ctx *ctx, const char *path, const lnt_content *c, lnt_wav *out)
{
    size_t format_bytes = 0, bytes = 0;
    const bool riff = c->bytes >= 12 && !memcmp(c->data, "RIFF", 4) && !memcmp(c->data + 8, "WAVE", 4);
    const char *format = riff ? find_chunk(c, "fmt ", &format_bytes) : NULL;
    const char *data = riff ? find_chunk(c, "data", &bytes) : NULL;
    if (!format || format_bytes < 16 || !data)
        return lnt_fail(ctx, LNT_ERR_FORMAT, LNT_FILE_FMT ": is no .wav file", path);
    const uint32_t claimed = little(data - 4, 4);
    if (bytes < 2 || (claimed != bytes && claimed != UINT32_MAX)) /* that of a stream */
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": holds %zu bytes of sound, its header says %lu", path, bytes,
                        (unsigned long)claimed);
    out->rate = little(format + 4, 4);
    if (little(format, 2) != 1 || little(format + 2, 2) != 1 || little(format + 14, 2) != 16 ||
        out->rate < 1000 || out->rate > 192000)
        return lnt_fail(ctx, LNT_ERR_FORMAT,
                        LNT_FILE_FMT ": must be 16-bit PCM of one channel, 1 to 192 kHz", path);
    out->count = bytes / 2;
    out->samples = lnt_allocate(ctx, out->count * sizeof *out->samples, "a recording");
    if (!out->samples) return LNT_ERR_MEMORY;
    for (size_t i = 0; i < out->count; i++)
        out->samples[i] = (float)(int16_t)little(data + 2 * i, 2) / 32768;
    return LNT_OK;
}

lnt_status lnt_wav_read(lnt_ctx *ctx, const char *path, lnt_wav *out)
{
    lnt_content content;
    *out = (lnt_wav){ 0 };
    lnt_status status = lnt_content_read(ctx, path, &content);
    if (status) return status;
    status = decode(ctx, path, &content, out);
    lnt_content_free(ctx, &content);
    return status;
}

void lnt_wav_free(lnt_ctx *ctx, lnt_wav *wav)
{
    lnt_release(ctx, wav->samples, wav->count * sizeof *wav->samples);
    *wav = (lnt_wav){ 0 };
}
