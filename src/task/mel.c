/* task/mel.c - log-mel features: frames of 25 ms every 10 ms, a Hann window, the power spectrum, triangles
 * of equal width on the mel scale (2595 log10(1 + f / 700)), the logarithm.  Then the mean of each band is
 * subtracted and all is divided by one deviation, so that loudness and microphone do not matter. */
#include "task/mel.h"

#include <math.h>
#include <string.h>

enum { MOST = 8192 }; /* samples of a transform; 25 ms at 192 kHz fit */
static const double PI = 3.141592653589793;

static size_t window_of(int64_t rate) { return (size_t)(rate / 40); }
static size_t hop_of(int64_t rate) { return (size_t)(rate / 100); }

size_t lnt_mel_frames(size_t samples, int64_t rate)
{
    const size_t window = window_of(rate);
    return samples < window ? 1 : 1 + (samples - window) / hop_of(rate);
}

/* In place, n a power of two. */
static void fft(float *re, float *im, size_t n)
{
    for (size_t i = 1, j = 0; i < n; i++) {
        size_t bit = n >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j ^= bit;
        if (i >= j) continue;
        const float a = re[i], b = im[i];
        re[i] = re[j], im[i] = im[j];
        re[j] = a, im[j] = b;
    }
    for (size_t size = 2; size <= n; size *= 2)
        for (size_t k = 0; k < size / 2; k++) {
            const double angle = -2 * PI * (double)k / (double)size;
            const float c = (float)cos(angle), s = (float)sin(angle);
            for (size_t i = k; i < n; i += size) {
                const size_t j = i + size / 2;
                const float x = re[j] * c - im[j] * s, y = re[j] * s + im[j] * c;
                re[j] = re[i] - x, im[j] = im[i] - y;
                re[i] += x, im[i] += y;
            }
        }
}

static double mel_of(double frequency) { return 2595 * log10(1 + frequency / 700); }

/* The bands of one frame's power, power[n/2+1]. */
static void bands(const float *power, size_t n, int64_t rate, float *out)
{
    const double most = mel_of((double)rate / 2), step = most / (LNT_MEL_BANDS + 1);
    double sum[LNT_MEL_BANDS] = { 0 };
    for (size_t i = 1; i <= n / 2; i++) {
        const double place = mel_of((double)i * (double)rate / (double)n) / step;
        const int below = (int)place; /* between the middles of band below-1 and band below */
        const double share = place - below;
        if (below < LNT_MEL_BANDS) sum[below] += share * (double)power[i];
        if (below >= 1 && below <= LNT_MEL_BANDS) sum[below - 1] += (1 - share) * (double)power[i];
    }
    for (int b = 0; b < LNT_MEL_BANDS; b++) out[b] = (float)log(sum[b] + 1e-6);
}

static void normalise(float *x, size_t frames)
{
    double square = 0;
    for (int b = 0; b < LNT_MEL_BANDS; b++) {
        double mean = 0;
        for (size_t t = 0; t < frames; t++) mean += (double)x[t * LNT_MEL_BANDS + (size_t)b];
        mean /= (double)frames;
        for (size_t t = 0; t < frames; t++) {
            float *at = x + t * LNT_MEL_BANDS + (size_t)b;
            *at -= (float)mean;
            square += (double)*at * (double)*at;
        }
    }
    const double deviation = sqrt(square / (double)(frames * LNT_MEL_BANDS)) + 1e-3;
    for (size_t i = 0; i < frames * LNT_MEL_BANDS; i++) x[i] /= (float)deviation;
}

void lnt_mel_features(const float *samples, size_t count, int64_t rate, float *out)
{
    const size_t window = window_of(rate), hop = hop_of(rate), frames = lnt_mel_frames(count, rate);
    float re[MOST], im[MOST];
    size_t n = 1;
    while (n < window) n *= 2;
    for (size_t t = 0; t < frames; t++) {
        memset(re, 0, n * sizeof *re);
        memset(im, 0, n * sizeof *im);
        for (size_t i = 0; i < window && t * hop + i < count; i++)
            re[i] = samples[t * hop + i] *
                    (float)(0.5 - 0.5 * cos(2 * PI * (double)i / (double)window));
        fft(re, im, n);
        for (size_t i = 0; i <= n / 2; i++) re[i] = re[i] * re[i] + im[i] * im[i];
        bands(re, n, rate, out + t * LNT_MEL_BANDS);
    }
    normalise(out, frames);
}
