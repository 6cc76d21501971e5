/* cli/show/png.c - a grey .png.  Its rows are stored without compression, since a sheet of samples is small.
 * */
#include "cli/show/png.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output_file.h"
#include "cli/show/report.h"

enum { STORED = 65535 }; /* bytes a block of DEFLATE holds as they are */

static void put32(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++) to[i] = (unsigned char)(value >> (24 - 8 * i));
}

static uint32_t crc32(uint32_t crc, const unsigned char *data, size_t bytes)
{
    crc = ~crc;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

static void put_chunk(FILE *to, const char *name, const unsigned char *data, size_t bytes)
{
    unsigned char word[4];
    put32(word, (uint32_t)bytes);
    fwrite(word, 1, 4, to);
    fwrite(name, 1, 4, to);
    fwrite(data, 1, bytes, to);
    put32(word, crc32(crc32(0, (const unsigned char *)name, 4), data, bytes));
    fwrite(word, 1, 4, to);
}

static uint32_t adler32(const unsigned char *data, size_t bytes)
{
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < bytes; i++) {
        a = (a + data[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

/* raw [bytes] as a zlib stream; returns its length. */
static size_t store(const unsigned char *raw, size_t bytes, unsigned char *to)
{
    unsigned char *at = to;
    *at++ = 0x78;
    *at++ = 0x01;
    for (size_t done = 0; done < bytes;) {
        const size_t part = bytes - done < STORED ? bytes - done : STORED;
        *at++ = done + part == bytes;
        *at++ = (unsigned char)part;
        *at++ = (unsigned char)(part >> 8);
        *at++ = (unsigned char)~part;
        *at++ = (unsigned char)(~part >> 8);
        memcpy(at, raw + done, part);
        at += part;
        done += part;
    }
    put32(at, adler32(raw, bytes));
    return (size_t)(at + 4 - to);
}

static void put_image(FILE *to, const unsigned char *pixels, size_t width, size_t height,
                      unsigned char *raw, unsigned char *packed)
{
    static const unsigned char signature[] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };
    unsigned char header[13] = { 0 };
    put32(header, (uint32_t)width);
    put32(header + 4, (uint32_t)height);
    header[8] = 8; /* bits; grey, no filter, no interlace */
    for (size_t y = 0; y < height; y++) {
        raw[y * (width + 1)] = 0;
        memcpy(raw + y * (width + 1) + 1, pixels + y * width, width);
    }
    fwrite(signature, 1, sizeof signature, to);
    put_chunk(to, "IHDR", header, sizeof header);
    put_chunk(to, "IDAT", packed, store(raw, height * (width + 1), packed));
    put_chunk(to, "IEND", header, 0);
}

int png_write(const char *path, const unsigned char *pixels, size_t width, size_t height)
{
    const size_t bytes = height * (width + 1), most = bytes + 5 * (bytes / STORED + 1) + 6;
    unsigned char *raw = malloc(bytes + 1), *packed = malloc(most);
    output_file at;
    int status = raw && packed ? output_file_open(path, &at) : fail_memory(most);
    if (!status) {
        put_image(at.file, pixels, width, height, raw, packed);
        status = output_file_commit(&at);
    }
    free(raw);
    free(packed);
    return status;
}
