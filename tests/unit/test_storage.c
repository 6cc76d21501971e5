/* test_storage.c - io/storage: blocks packed here number by number, as the format says, give these numbers
 * back. */
#include "io/storage.h"

#include <string.h>

#include "core/dtype.h"
#include "support.h"

enum { BLOCK = 256, BYTES = 1024 };

/* One block taken apart: what its fields hold. */
typedef struct parts {
    uint16_t d, m;               /* f16 */
    int q[BLOCK];                /* from 0, as stored */
    int scale[16], minimum[16];  /* as stored: from 0, but signed for q6_k */
} parts;

static void put_half(unsigned char *b, uint16_t h)
{
    b[0] = (unsigned char)h;
    b[1] = (unsigned char)(h >> 8);
}

static void put_bits(unsigned char *b, int value, int shift) { *b = (unsigned char)(*b | value << shift); }

/* Blocks of 32: d, perhaps m, perhaps the fifth bits, nibbles. */
static void pack_32(const parts *p, bool minimum, bool fifth, unsigned char *b)
{
    put_half(b, p->d);
    b += 2;
    if (minimum) put_half(b, p->m), b += 2;
    for (int i = 0; fifth && i < 32; i++) put_bits(b + i / 8, p->q[i] >> 4, i % 8);
    if (fifth) b += 4;
    for (int i = 0; i < 32; i++) put_bits(b + i % 16, p->q[i] & 15, i < 16 ? 0 : 4);
}

static void pack_q8_0(const parts *p, unsigned char *b)
{
    put_half(b, p->d);
    for (int i = 0; i < 32; i++) b[2 + i] = (unsigned char)(p->q[i] - 128);
}

/* Two bits of 128 numbers in 32 bytes: a byte's pairs are 32 numbers apart. */
static void put_pairs(const parts *p, int shift, unsigned char *b)
{
    for (int i = 0; i < 256; i++)
        put_bits(b + (i < 128 ? i % 32 : 32 + i % 32), p->q[i] >> shift & 3, i % 128 / 32 * 2);
}

static void pack_q2_k(const parts *p, unsigned char *b)
{
    for (int g = 0; g < 16; g++) b[g] = (unsigned char)(p->scale[g] | p->minimum[g] << 4);
    put_pairs(p, 0, b + 16);
    put_half(b + 80, p->d);
    put_half(b + 82, p->m);
}

static void pack_q3_k(const parts *p, unsigned char *b)
{
    for (int i = 0; i < 256; i++) put_bits(b + i % 32, p->q[i] >> 2, i / 32);
    put_pairs(p, 0, b + 32);
    for (int g = 0; g < 16; g++) {
        put_bits(b + 96 + g % 8, p->scale[g] & 15, g < 8 ? 0 : 4);
        put_bits(b + 104 + g % 4, p->scale[g] >> 4, g / 4 * 2);
    }
    put_half(b + 108, p->d);
}

/* d, m, and eight scales and minima of six bits in twelve bytes. */
static void put_scales(const parts *p, unsigned char *b)
{
    put_half(b, p->d);
    put_half(b + 2, p->m);
    for (int g = 0; g < 8; g++) {
        const int s = p->scale[g], m = p->minimum[g];
        unsigned char *low = b + 4 + g % 4, *high = b + 8 + g % 4, *rest = b + 12 + g % 4;
        if (g < 4) {
            put_bits(low, s, 0);
            put_bits(high, m, 0);
        } else {
            put_bits(rest, s & 15, 0);
            put_bits(rest, m & 15, 4);
            put_bits(low, s >> 4, 6);
            put_bits(high, m >> 4, 6);
        }
    }
}

static void put_nibbles(const parts *p, unsigned char *b)
{
    for (int i = 0; i < 256; i++) put_bits(b + i / 64 * 32 + i % 32, p->q[i] & 15, i % 64 < 32 ? 0 : 4);
}

static void pack_q4_k(const parts *p, unsigned char *b)
{
    put_scales(p, b);
    put_nibbles(p, b + 16);
}

static void pack_q5_k(const parts *p, unsigned char *b)
{
    put_scales(p, b);
    for (int i = 0; i < 256; i++) put_bits(b + 16 + i % 32, p->q[i] >> 4, i / 32);
    put_nibbles(p, b + 48);
}

static void pack_q6_k(const parts *p, unsigned char *b)
{
    for (int i = 0; i < 256; i++)
        put_bits(b + i / 128 * 64 + i % 64, p->q[i] & 15, i % 128 < 64 ? 0 : 4);
    put_pairs(p, 4, b + 128);
    for (int g = 0; g < 16; g++) b[192 + g] = (unsigned char)p->scale[g];
    put_half(b + 208, p->d);
}

static void pack(lnt_storage storage, const parts *p, unsigned char *b)
{
    memset(b, 0, BYTES);
    switch (storage) {
    case LNT_STORAGE_Q8_0: pack_q8_0(p, b); break;
    case LNT_STORAGE_Q4_0: pack_32(p, false, false, b); break;
    case LNT_STORAGE_Q4_1: pack_32(p, true, false, b); break;
    case LNT_STORAGE_Q5_0: pack_32(p, false, true, b); break;
    case LNT_STORAGE_Q5_1: pack_32(p, true, true, b); break;
    case LNT_STORAGE_Q2_K: pack_q2_k(p, b); break;
    case LNT_STORAGE_Q3_K: pack_q3_k(p, b); break;
    case LNT_STORAGE_Q4_K: pack_q4_k(p, b); break;
    case LNT_STORAGE_Q5_K: pack_q5_k(p, b); break;
    case LNT_STORAGE_Q6_K: pack_q6_k(p, b); break;
    default: fail_msg("%s has no blocks", lnt_storage_name(storage));
    }
}

/* bits of a number; where its zero is; numbers that share a scale, of how many bits and from where; the
 * same of minima.  A minimum of 32 numbers is added, one of 256 subtracted. */
static const struct format {
    lnt_storage storage;
    int bits, zero, group, scale_bits, scale_zero, minimum_bits;
    bool added;
} formats[] = {
    { LNT_STORAGE_Q8_0, 8, 128, 32, 0, 0, 0, false }, { LNT_STORAGE_Q4_0, 4, 8, 32, 0, 0, 0, false },
    { LNT_STORAGE_Q4_1, 4, 0, 32, 0, 0, 0, true },    { LNT_STORAGE_Q5_0, 5, 16, 32, 0, 0, 0, false },
    { LNT_STORAGE_Q5_1, 5, 0, 32, 0, 0, 0, true },    { LNT_STORAGE_Q2_K, 2, 0, 16, 4, 0, 4, false },
    { LNT_STORAGE_Q3_K, 3, 4, 16, 6, 32, 0, false },  { LNT_STORAGE_Q4_K, 4, 0, 32, 6, 0, 6, false },
    { LNT_STORAGE_Q5_K, 5, 0, 32, 6, 0, 6, false },   { LNT_STORAGE_Q6_K, 6, 32, 16, 8, 0, 0, false },
};

static parts random_parts(dice *d, const struct format *f)
{
    parts p = { 0 };
    p.d = lnt_float_to_f16((float)dice_normal(d));
    p.m = lnt_float_to_f16((float)dice_normal(d));
    for (int i = 0; i < BLOCK; i++) p.q[i] = (int)dice_range(d, 0, (1 << f->bits) - 1);
    for (int g = 0; g < 16; g++) {
        p.scale[g] = (int)dice_range(d, 0, (1 << f->scale_bits) - 1);
        if (f->scale_bits == 8) p.scale[g] -= 128;
        p.minimum[g] = (int)dice_range(d, 0, (1 << f->minimum_bits) - 1);
    }
    return p;
}

static double number_of(const struct format *f, const parts *p, int i)
{
    const double d = (double)lnt_f16_to_float(p->d), m = (double)lnt_f16_to_float(p->m);
    const int g = i / f->group, scale = f->scale_bits ? p->scale[g] - f->scale_zero : 1;
    const double x = d * scale * (p->q[i] - f->zero);
    return f->added ? x + m : f->minimum_bits ? x - m * p->minimum[g] : x;
}

static void every_block_gives_its_numbers(void **state)
{
    (void)state;
    dice d = { 41 };
    for (int c = 0; c < COUNT_OF(formats); c++) {
        const struct format *f = &formats[c];
        const int numbers = (int)lnt_storage_numbers(f->storage);
        const size_t bytes = lnt_storage_bytes(f->storage);
        for (int round = 0; round < 50; round++) {
            const parts p[2] = { random_parts(&d, f), random_parts(&d, f) };
            unsigned char packed[2 * BYTES + 1], one[BYTES];
            float x[2 * BLOCK];
            for (int b = 0; b < 2; b++) { /* at an odd address: a block has no alignment */
                pack(f->storage, &p[b], one);
                memcpy(packed + 1 + (size_t)b * bytes, one, bytes);
            }
            lnt_storage_unpack(f->storage, packed + 1, x, 2 * (size_t)numbers);
            for (int i = 0; i < 2 * numbers; i++) {
                const float want = (float)number_of(f, &p[i / numbers], i % numbers);
                if (lnt_float_bits(x[i]) != lnt_float_bits(want) && x[i] - want != 0)
                    fail_msg("%s: number %d is %.9g, not %.9g", lnt_storage_name(f->storage), i,
                             (double)x[i], (double)want);
            }
        }
    }
}

static void numbers_as_they_are_are_widened(void **state)
{
    (void)state;
    static const unsigned char bytes[] = { 0, 0, 0xc0, 0xbf, 0, 0x3c, 0xff, 0x7b, 1, 0 };
    float x[3];
    lnt_storage_unpack(LNT_STORAGE_F32, bytes, x, 1);
    assert_true(x[0] == -1.5f);
    lnt_storage_unpack(LNT_STORAGE_F16, bytes + 4, x, 3);
    assert_true(x[0] == 1 && x[1] == 65504 && x[2] == 0x1p-24f);
    lnt_storage_unpack(LNT_STORAGE_BF16, bytes + 2, x, 1);
    assert_true(x[0] == -1.5f);
}

/* Bytes written down by hand, of a block that no other code has packed. */
static void block_written_by_hand_is_read(void **state)
{
    (void)state;
    /* d 0.5, m -1; numbers 0 and 16 are 0 and 1, 1 and 17 are 2 and 15. */
    const unsigned char b[20] = { 0, 0x38, 0, 0xbc, 0x10, 0xf2 };
    float x[32];
    lnt_storage_unpack(LNT_STORAGE_Q4_1, b, x, 32);
    assert_true(x[0] == -1 && x[16] == -0.5f && x[1] == 0 && x[17] == 6.5f && x[2] == -1);
}

static void sizes_are_those_of_the_format(void **state)
{
    (void)state;
    static const size_t bits[LNT_STORAGES] = { /* of a block */
        32, 16, 16, 272, 144, 160, 176, 192, 672, 880, 1152, 1408, 1680
    };
    for (int s = 0; s < LNT_STORAGES; s++) {
        const size_t numbers = lnt_storage_numbers((lnt_storage)s);
        assert_int_equal(numbers, s < LNT_STORAGE_Q8_0 ? 1 : s < LNT_STORAGE_Q2_K ? 32 : 256);
        assert_int_equal(8 * lnt_storage_bytes((lnt_storage)s), bits[s]);
    }
    assert_string_equal(lnt_storage_name(LNT_STORAGE_Q4_1), "q4_1");
    assert_string_equal(lnt_storage_name(LNT_STORAGE_Q6_K), "q6_k");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_block_gives_its_numbers),
        cmocka_unit_test(numbers_as_they_are_are_widened),
        cmocka_unit_test(block_written_by_hand_is_read),
        cmocka_unit_test(sizes_are_those_of_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
