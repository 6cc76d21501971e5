/* gguf_file.c - GGUF files put together from their parts. */
#include "gguf_file.h"

#include <stdlib.h>
#include <string.h>

void buffer_put(buffer *b, const void *from, size_t count)
{
    if (b->used + count > b->room) {
        b->room = 2 * (b->used + count);
        b->data = realloc(b->data, b->room);
        if (!b->data) abort();
    }
    if (count) memcpy(b->data + b->used, from, count);
    b->used += count;
}

void buffer_put_u32(buffer *b, uint32_t value) { buffer_put(b, &value, sizeof value); }
void buffer_put_u64(buffer *b, uint64_t value) { buffer_put(b, &value, sizeof value); }

void buffer_put_string(buffer *b, const char *text, size_t count)
{
    buffer_put_u64(b, count);
    buffer_put(b, text, count);
}

void buffer_free(buffer *b)
{
    free(b->data);
    *b = (buffer){ 0 };
}

static void pad(buffer *b, size_t alignment)
{
    while (b->used % alignment) buffer_put(b, "", 1);
}

void gguf_file_begin(gguf_file *f) { *f = (gguf_file){ .version = 3, .alignment = 32 }; }

void gguf_file_free(gguf_file *f)
{
    buffer_free(&f->keys);
    buffer_free(&f->tensors);
    buffer_free(&f->data);
}

void gguf_file_key(gguf_file *f, const char *key, lnt_gguf_type type, const void *value, size_t count)
{
    buffer_put_string(&f->keys, key, strlen(key));
    buffer_put_u32(&f->keys, (uint32_t)type);
    buffer_put(&f->keys, value, count);
    f->key_count++;
}

void gguf_file_string(gguf_file *f, const char *key, const char *text)
{
    buffer value = { 0 };
    buffer_put_string(&value, text, strlen(text));
    gguf_file_key(f, key, LNT_GGUF_STRING, value.data, value.used);
    buffer_free(&value);
}

void gguf_file_u32(gguf_file *f, const char *key, uint32_t value)
{
    gguf_file_key(f, key, LNT_GGUF_U32, &value, sizeof value);
}

void gguf_file_f32(gguf_file *f, const char *key, float value)
{
    gguf_file_key(f, key, LNT_GGUF_F32, &value, sizeof value);
}

void gguf_file_array(gguf_file *f, const char *key, lnt_gguf_type element, uint64_t count,
                     const buffer *elements)
{
    buffer value = { 0 };
    buffer_put_u32(&value, (uint32_t)element);
    buffer_put_u64(&value, count);
    buffer_put(&value, elements->data, elements->used);
    gguf_file_key(f, key, LNT_GGUF_ARRAY, value.data, value.used);
    buffer_free(&value);
}

void gguf_file_line(gguf_file *f, const char *name, uint32_t rank, const uint64_t *extents, uint32_t type,
                    uint64_t offset)
{
    buffer_put_string(&f->tensors, name, strlen(name));
    buffer_put_u32(&f->tensors, rank);
    for (uint32_t i = 0; i < rank; i++) buffer_put_u64(&f->tensors, extents[i]);
    buffer_put_u32(&f->tensors, type);
    buffer_put_u64(&f->tensors, offset);
    f->tensor_count++;
}

uint32_t gguf_file_type(lnt_storage storage)
{
    static const uint32_t types[LNT_STORAGES] = { 0, 1, 30, 8, 2, 3, 6, 7, 10, 11, 12, 13, 14 };
    return types[storage];
}

void gguf_file_tensor(gguf_file *f, const char *name, lnt_storage storage, int rank, const int64_t *shape,
                      const void *data, size_t count)
{
    uint64_t extents[LNT_GGUF_MAX_RANK];
    for (int i = 0; i < rank; i++) extents[i] = (uint64_t)shape[rank - 1 - i];
    pad(&f->data, f->alignment);
    gguf_file_line(f, name, (uint32_t)rank, extents, gguf_file_type(storage), f->data.used);
    buffer_put(&f->data, data, count);
}

buffer gguf_file_join(const gguf_file *f)
{
    buffer all = { 0 };
    buffer_put(&all, "GGUF", 4);
    buffer_put_u32(&all, f->version);
    buffer_put_u64(&all, f->tensor_count);
    buffer_put_u64(&all, f->key_count);
    buffer_put(&all, f->keys.data, f->keys.used);
    buffer_put(&all, f->tensors.data, f->tensors.used);
    if (f->data.used) pad(&all, f->alignment);
    buffer_put(&all, f->data.data, f->data.used);
    return all;
}

buffer gguf_file_sample(void)
{
    static const uint64_t big = UINT64_C(1) << 63;
    static const int8_t small = -3;
    static const double wide = 0.1;
    static const float reals[3] = { 1.5f, -2, 0 };
    static const int32_t integers[3] = { 7, -1, 1 << 30 };
    static const float row[4] = { 1, 2, 3, 4 };
    static const unsigned char packed[18] = { 0, 0x3c, 0x98 };
    gguf_file f;
    buffer b = { 0 };
    gguf_file_begin(&f);
    gguf_file_string(&f, "general.architecture", "llama");
    gguf_file_u32(&f, "llama.block_count", 30);
    gguf_file_f32(&f, "llama.rope.freq_base", 10000);
    gguf_file_key(&f, "wide", LNT_GGUF_F64, &wide, sizeof wide);
    gguf_file_key(&f, "small", LNT_GGUF_I8, &small, sizeof small);
    gguf_file_key(&f, "big", LNT_GGUF_U64, &big, sizeof big);
    gguf_file_key(&f, "yes", LNT_GGUF_BOOL, "\1", 1);
    buffer_put(&b, reals, sizeof reals);
    gguf_file_array(&f, "scores", LNT_GGUF_F32, 3, &b);
    b.used = 0;
    buffer_put(&b, integers, sizeof integers);
    gguf_file_array(&f, "types", LNT_GGUF_I32, 3, &b);
    b.used = 0;
    buffer_put_string(&b, "a", 1);
    buffer_put_string(&b, "", 0);
    buffer_put_string(&b, "b\0c", 3);
    gguf_file_array(&f, "tokens", LNT_GGUF_STRING, 3, &b);
    b.used = 0;
    buffer_put_u32(&b, LNT_GGUF_U8);
    buffer_put_u64(&b, 2);
    buffer_put(&b, "xy", 2);
    gguf_file_array(&f, "nested", LNT_GGUF_ARRAY, 1, &b);
    buffer_free(&b);
    gguf_file_tensor(&f, "norm", LNT_STORAGE_F32, 1, (const int64_t[]){ 4 }, row, sizeof row);
    gguf_file_tensor(&f, "blk.0.q", LNT_STORAGE_Q4_0, 2, (const int64_t[]){ 1, 32 }, packed, sizeof packed);
    b = gguf_file_join(&f);
    gguf_file_free(&f);
    return b;
}

void *exact_copy(const void *from, size_t count)
{
    void *memory = malloc(count ? count : 1);
    if (!memory) abort();
    if (count) memcpy(memory, from, count);
    return memory;
}

uint64_t gguf_file_walk(const lnt_gguf *g)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < g->tensor_count; i++) {
        const unsigned char *data = g->tensors[i].data;
        for (size_t b = 0; b < g->tensors[i].bytes; b++) sum += data[b];
        sum += strlen(g->tensors[i].name);
    }
    for (size_t i = 0; i < g->key_count; i++) {
        const lnt_gguf_value *value = &g->keys[i].value;
        for (size_t b = 0; b < value->bytes; b++) sum += value->data[b];
        if (value->type != LNT_GGUF_ARRAY) continue;
        lnt_gguf_value rest = *value;
        size_t strings = 0;
        if (value->element == LNT_GGUF_STRING)
            for (lnt_gguf_string s; lnt_gguf_next_string(&rest, &s); strings++) sum += s.bytes;
        if (value->element == LNT_GGUF_STRING && strings != value->count) abort();
        for (size_t e = 0; e < value->count && lnt_gguf_size(value->element); e++)
            sum += (uint64_t)lnt_gguf_integer_at(&rest, e);
    }
    return sum;
}
