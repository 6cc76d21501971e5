#!/usr/bin/env bash
# The shared library exports exactly the functions that linnet.h and its parts in linnet/ declare with
# LNT_API, and needs nothing but the C library, libm, libdl and OpenMP.
#
#     tools/check-exports.sh liblinnet.so linnet.h
set -euo pipefail

library=$1 header=$2
headers=("$header")
for part in "${header%.h}"/*.h; do [ ! -e "$part" ] || headers+=("$part"); done

# Without preprocessor lines and comments, a declaration is LNT_API ... name(
declared=$(sed '/^ *#/d' "${headers[@]}" | tr '\n' ' ' | sed 's:/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/::g' |
           grep -oE 'LNT_API [^;(]*\(' | sed -E 's/.*[ *]([A-Za-z0-9_]+) *\($/\1/' | sort)
exported=$(nm -D --defined-only "$library" | awk '{ print $NF }' | sort)
[ -n "$declared" ] || { echo "$header: no LNT_API function found"; exit 1; }

bad=0
while read -r name; do
    [ -z "$name" ] || { bad=1; echo "declared in $header but not exported: $name"; }
done < <(comm -23 <(echo "$declared") <(echo "$exported"))
while read -r name; do
    [ -z "$name" ] || { bad=1; echo "exported but not declared in $header: $name"; }
done < <(comm -13 <(echo "$declared") <(echo "$exported"))

# The dynamic loader and the compiler's run-time library (libgcc_s) come with the C library.
while read -r needed; do
    [[ $needed =~ ^(libc|libm|libdl|libgomp|libomp|libgcc_s|ld-linux[-a-z0-9_]*)\.so ]] ||
        { bad=1; echo "$library needs $needed"; }
done < <(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')

[ "$bad" = 0 ] && echo "$(wc -w <<< "$exported") functions exported, all declared"
exit "$bad"
