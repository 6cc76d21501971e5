/* io/safetensors_form.h - what reading and writing .safetensors files share. */
#ifndef LNT_IO_SAFETENSORS_FORM_H
#define LNT_IO_SAFETENSORS_FORM_H

#include "io/safetensors.h"

#define METADATA "__metadata__"
#define CHECKSUM "linnet.checksum"
#define CHECKSUM_KIND "linnet.checksum.kind"
#define CRC64_XZ "crc64-xz"
#define DIGITS_ZERO "0000000000000000"

enum { PREFIX_BYTES = 8, DIGITS = 16 };

void lnt_st_put_digits(uint64_t checksum, char out[DIGITS + 1]);

#endif
