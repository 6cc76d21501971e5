#!/usr/bin/env bash
# Freezes the public headers as those of the first release of their soname, tests/abi/MAJOR.MINOR.  From then
# on lint/abi and unit/abi hold the library to them.
set -euo pipefail

cd "$(dirname "$0")/.."
version=$(sed -n 's/^#define LNT_VERSION_STRING "\([0-9]*\.[0-9]*\).*/\1/p' include/linnet.h)
to=tests/abi/$version
rm -rf "$to"
mkdir -p "$to/linnet"
cp include/linnet.h "$to/"
cp include/linnet/*.h "$to/linnet/"
echo "$to holds the headers of this soname; configure again"
