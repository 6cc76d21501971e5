/* task/mel.h - log-mel features: the loudness of each frequency band, a hundred times a second. */
#ifndef LNT_TASK_MEL_H
#define LNT_TASK_MEL_H

#include <stddef.h>
#include <stdint.h>

enum { LNT_MEL_BANDS = 40 };

/* Frames of so many samples. */
size_t lnt_mel_frames(size_t samples, int64_t rate);
/* out [frames,40], each band with mean 0 over the recording, all with deviation 1. */
void lnt_mel_features(const float *samples, size_t count, int64_t rate, float *out);

#endif
