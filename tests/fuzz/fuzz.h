/* fuzz.h - what the fuzz targets share.  A target is a file fuzz_<name>.c with LLVMFuzzerTestOneInput; its
 * seeds are made by seeds.c; tools/fuzz.sh runs them. */
#ifndef LNT_TESTS_FUZZ_H
#define LNT_TESTS_FUZZ_H

#include "core/context.h"

/* libFuzzer calls it with one input after the other. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Made at the first call, and never given back. */
lnt_ctx *fuzz_context(void);

/* The input as a file in memory; its path is the same at every call. */
const char *fuzz_file(const uint8_t *data, size_t size);

/* Ends the program unless a call gave LNT_OK, or a status with one sentence of its own. */
void fuzz_check(lnt_status status);

/* Reads every byte, for a sanitizer to see. */
void fuzz_touch(const void *data, size_t bytes);

#endif
