#!/usr/bin/env bash
# Each public header compiles alone, without a warning, as C99, C11 and C++17, with gcc and clang.
#
#     tools/check-header.sh linnet.h linnet/model.h ...
set -eu

bad=0
compile() { # compiler, language, standard
    "$1" -x "$2" -std="$3" -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror \
        -include "$header" "$header" || { bad=1; echo "$header is not clean as $3 with $1"; }
}
for header; do
    for compiler in gcc clang; do
        compile "$compiler" c c99
        compile "$compiler" c c11
    done
    for compiler in g++ clang++; do
        compile "$compiler" c++ c++17
    done
done
exit "$bad"
