/* gguf_file.h - makes GGUF files in memory, true ones and lies. */
#ifndef LNT_TESTS_GGUF_FILE_H
#define LNT_TESTS_GGUF_FILE_H

#include "io/gguf.h"

typedef struct buffer {
    unsigned char *data; /* from malloc */
    size_t used, room;
} buffer;

void buffer_put(buffer *b, const void *from, size_t count);
void buffer_put_u32(buffer *b, uint32_t value);
void buffer_put_u64(buffer *b, uint64_t value);
void buffer_put_string(buffer *b, const char *text, size_t count); /* as GGUF has it: length and bytes */
void buffer_free(buffer *b);

/* Its parts, which gguf_file_join puts one after the other; a test may change any of them first. */
typedef struct gguf_file {
    uint32_t version;
    uint64_t tensor_count, key_count; /* as the file will say */
    size_t alignment;                 /* of the data; a test that changes it puts the key too */
    buffer keys, tensors, data;
} gguf_file;

void gguf_file_begin(gguf_file *f); /* version 3, nothing in it */
void gguf_file_free(gguf_file *f);

/* A key of one value, whose buffer follow its type as they are. */
void gguf_file_key(gguf_file *f, const char *key, lnt_gguf_type type, const void *value, size_t count);
void gguf_file_string(gguf_file *f, const char *key, const char *text);
void gguf_file_u32(gguf_file *f, const char *key, uint32_t value);
void gguf_file_f32(gguf_file *f, const char *key, float value);
/* An array of `count` elements, whose buffer follow as they are. */
void gguf_file_array(gguf_file *f, const char *key, lnt_gguf_type element, uint64_t count,
                     const buffer *elements);

/* A line of the list: extents as the file has them, the contiguous one first; offset from the begin of the
 * data. */
void gguf_file_line(gguf_file *f, const char *name, uint32_t rank, const uint64_t *extents, uint32_t type,
                    uint64_t offset);
/* A tensor [shape] with its data, at the next aligned place. */
void gguf_file_tensor(gguf_file *f, const char *name, lnt_storage storage, int rank, const int64_t *shape,
                      const void *data, size_t count);
uint32_t gguf_file_type(lnt_storage storage); /* the number of the format */

buffer gguf_file_join(const gguf_file *f);

/* A file with something of every kind. */
buffer gguf_file_sample(void);

/* A copy from malloc that ends where the memory ends, so that a sanitizer sees a read past it. */
void *exact_copy(const void *from, size_t count);
/* Reads everything a file has: each byte of tensors and each element of arrays.  The sum has no meaning.
 * */
uint64_t gguf_file_walk(const lnt_gguf *g);

#endif
