#!/usr/bin/env bash
# Each library exports exactly the functions that its header declares with LNT_API, beside them the first
# under a version LINNET_PRIVATE_... exactly those that the second needs, and neither needs another
# library but those named below.
#
#     tools/check-exports.sh liblinnet.so linnet.h [liblinnet-model.so linnet/model.h]
set -euo pipefail

bad=0
compare() { # what to say of a name in the first list only, in the second only, the lists
    while read -r name; do bad=1; echo "$1: $name"; done < <(comm -23 <(echo "$3") <(echo "$4") | grep .)
    while read -r name; do bad=1; echo "$2: $name"; done < <(comm -13 <(echo "$3") <(echo "$4") | grep .)
}

# Without preprocessor lines and comments, a declaration is LNT_API ... name(
declared() { # header
    sed '/^ *#/d' "$1" | tr '\n' ' ' | sed 's:/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/::g' |
        grep -oE 'LNT_API [^;(]*\(' | sed -E 's/.*[ *]([A-Za-z0-9_]+) *\($/\1/' | sort
}

symbols() { # --defined-only or --undefined-only, library, with the version LINNET_PRIVATE_ or without
    nm -D "$1" "$2" | awk -v private="$3" '$(NF - 1) != "A" && private == /@LINNET_PRIVATE_/ { print $NF }' |
        sed 's/@.*//' | sort
}

for library in "$1" ${3+"$3"}; do
    [ -e "$library" ] || { echo "$library is not there: build all first"; exit 1; }
done

check() { # library, header, expression for other libraries that it may need
    local names
    names=$(declared "$2")
    compare "declared in $2 but not exported" "exported but not declared in $2" "$names" \
            "$(symbols --defined-only "$1" 0)"
    # The dynamic loader and the compiler's run-time library (libgcc_s) come with the C library.
    while read -r needed; do
        [[ $needed =~ ^(libc|libm|libgomp|libomp|libgcc_s|ld-linux[-a-z0-9_]*$3)\.so ]] ||
            { bad=1; echo "$1 needs $needed"; }
    done < <(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    echo "$(wc -w <<< "$names") functions declared in $2"
}

check "$1" "$2" ""
if [ $# = 4 ]; then
    check "$3" "$4" "|liblinnet|libz|libpcre2-8|libutf8proc|libpng[0-9]*|libjpeg|libopenblas|libcblas|libblas"
    compare "exported for $3, which does not need it; take it from cmake/linnet.map.in" "needed but not exported" \
            "$(symbols --defined-only "$1" 1)" "$(symbols --undefined-only "$3" 1)"
fi
exit "$bad"
