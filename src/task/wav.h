/* task/wav.h - recordings: 16-bit mono .wav files. */
#ifndef LNT_TASK_WAV_H
#define LNT_TASK_WAV_H

#include "core/context.h"

typedef struct lnt_wav {
    float *samples; /* [count], -1 to 1 */
    size_t count;
    int64_t rate; /* a second */
} lnt_wav;

lnt_status lnt_wav_read(lnt_ctx *ctx, const char *path, lnt_wav *out);
void lnt_wav_free(lnt_ctx *ctx, lnt_wav *wav);

#endif
