/* llama_file.c - see llama_file.h. */
#include "llama_file.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/rng.h"

/* The numbers of a row in a storage: f32, f16, bf16, or q8_0, by the nearest code. */
static void store_row(lnt_storage storage, const float *row, size_t count, buffer *to)
{
    for (size_t i = 0; i < count; i++) {
        const uint16_t half =
            storage == LNT_STORAGE_F16 ? lnt_float_to_f16(row[i]) : lnt_float_to_bf16(row[i]);
        if (storage == LNT_STORAGE_F32)
            buffer_put(to, row + i, sizeof row[i]);
        else if (storage != LNT_STORAGE_Q8_0)
            buffer_put(to, &half, sizeof half);
    }
    for (size_t at = 0; storage == LNT_STORAGE_Q8_0 && at < count; at += 32) {
        const float step = 1.0f / 64;
        const uint16_t scale = lnt_float_to_f16(step);
        buffer_put(to, &scale, sizeof scale);
        for (size_t i = at; i < at + 32; i++) {
            const float code = row[i] / step;
            const int8_t byte = (int8_t)(code > 127 ? 127 : code < -127 ? -127 : code);
            buffer_put(to, &byte, 1);
        }
    }
}

static void put(gguf_file *f, const char *name, lnt_storage storage, int rank, int64_t rows, int64_t columns,
                double around, uint64_t *seed)
{
    const lnt_rng rng = lnt_rng_make(++*seed);
    const int64_t shape[] = { rank == 2 ? rows : columns, columns };
    buffer data = { 0 };
    float *row = malloc((size_t)columns * sizeof *row);
    assert(row);
    for (int64_t i = 0; i < (rank == 2 ? rows : 1); i++) {
        for (int64_t j = 0; j < columns; j++)
            row[j] = (float)(around + 0.3 * lnt_rng_normal(rng, (uint64_t)(i * columns + j)));
        store_row(storage, row, (size_t)columns, &data);
    }
    gguf_file_tensor(f, name, storage, rank, shape, data.data, data.used);
    free(row);
    buffer_free(&data);
}

/* The letters of bytes in a byte-level vocabulary, as UTF-8; then some merges and a special token. */
static void put_vocabulary(gguf_file *f)
{
    static const char *const more[] = { "he", "ll", "hell", "hello", "in", "er", "on", "<|end|>" };
    static const char *const merges[] = { "h e", "l l", "he ll", "hell o", "i n", "e r", "o n" };
    buffer tokens = { 0 }, pairs = { 0 }, types = { 0 };
    for (int byte = 0, spare = 256; byte < 256; byte++) {
        const int plain = (byte > 32 && byte < 127) || (byte > 160 && byte < 173) || byte > 173;
        const int code = plain ? byte : spare++;
        const char text[] = { code < 128 ? (char)code : (char)(0xc0 | code >> 6),
                              (char)(0x80 | (code & 63)) };
        buffer_put_string(&tokens, text, code < 128 ? 1 : 2);
    }
    for (size_t i = 0; i < 8; i++) buffer_put_string(&tokens, more[i], strlen(more[i]));
    for (size_t i = 0; i < 7; i++) buffer_put_string(&pairs, merges[i], strlen(merges[i]));
    for (int i = 0; i < LLAMA_TOKENS; i++) buffer_put_u32(&types, i == LLAMA_TOKENS - 1 ? 3 : 1);
    gguf_file_string(f, "tokenizer.ggml.model", "gpt2");
    gguf_file_string(f, "tokenizer.ggml.pre", "gpt-2");
    gguf_file_array(f, "tokenizer.ggml.tokens", LNT_GGUF_STRING, LLAMA_TOKENS, &tokens);
    gguf_file_array(f, "tokenizer.ggml.merges", LNT_GGUF_STRING, 7, &pairs);
    gguf_file_array(f, "tokenizer.ggml.token_type", LNT_GGUF_I32, LLAMA_TOKENS, &types);
    gguf_file_u32(f, "tokenizer.ggml.eos_token_id", LLAMA_TOKENS - 1);
    gguf_file_string(f, "tokenizer.chat_template",
                     "{% for m in messages %}{{ m.role + ':' + m.content + '<|end|>' }}{% endfor %}");
    buffer_free(&tokens), buffer_free(&pairs), buffer_free(&types);
}

buffer llama_file(lnt_storage storage, uint64_t seed)
{
    const int64_t d = LLAMA_DIM, kv = d * LLAMA_KV_HEADS / LLAMA_HEADS;
    gguf_file f;
    gguf_file_begin(&f);
    gguf_file_string(&f, "general.architecture", "llama");
    gguf_file_u32(&f, "llama.embedding_length", LLAMA_DIM);
    gguf_file_u32(&f, "llama.block_count", 1);
    gguf_file_u32(&f, "llama.attention.head_count", LLAMA_HEADS);
    gguf_file_u32(&f, "llama.attention.head_count_kv", LLAMA_KV_HEADS);
    gguf_file_u32(&f, "llama.feed_forward_length", LLAMA_FEED);
    gguf_file_u32(&f, "llama.context_length", 64);
    gguf_file_f32(&f, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    put_vocabulary(&f);
    put(&f, "token_embd.weight", storage, 2, LLAMA_TOKENS, d, 0, &seed);
    put(&f, "output_norm.weight", LNT_STORAGE_F32, 1, 1, d, 1, &seed);
    put(&f, "blk.0.attn_norm.weight", LNT_STORAGE_F32, 1, 1, d, 1, &seed);
    put(&f, "blk.0.attn_q.weight", storage, 2, d, d, 0, &seed);
    put(&f, "blk.0.attn_k.weight", storage, 2, kv, d, 0, &seed);
    put(&f, "blk.0.attn_v.weight", storage, 2, kv, d, 0, &seed);
    put(&f, "blk.0.attn_output.weight", storage, 2, d, d, 0, &seed);
    put(&f, "blk.0.ffn_norm.weight", LNT_STORAGE_F32, 1, 1, d, 1, &seed);
    put(&f, "blk.0.ffn_gate.weight", storage, 2, LLAMA_FEED, d, 0, &seed);
    put(&f, "blk.0.ffn_up.weight", storage, 2, LLAMA_FEED, d, 0, &seed);
    put(&f, "blk.0.ffn_down.weight", storage, 2, d, LLAMA_FEED, 0, &seed);
    const buffer all = gguf_file_join(&f);
    gguf_file_free(&f);
    return all;
}
