#!/usr/bin/env bash
# Plants one fault at a time in a small tree or library and sees that the lint for it complains.
set -eu

tools=$(cd "$(dirname "$0")/../../tools" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

failed=0
expect() { # pass|SENTENCE PART, what it is about, command ...
    local want=$1 claim=$2 status=0 said
    shift 2
    said=$("$@" 2>&1) || status=$?
    if [ "$want" = pass ]; then
        [ "$status" = 0 ] && return
    else
        [ "$status" = 1 ] && grep -qF -- "$want" <<< "$said" && return
    fi
    failed=1
    printf 'not so: %s (exit %d)\n%s\n' "$claim" "$status" "$said"
}

fresh() {
    rm -rf "$tmp/tree"
    mkdir -p "$tmp/tree/src/core" "$tmp/tree/src/plan" "$tmp/tree/src/cli" "$tmp/tree/include"
    cd "$tmp/tree"
    echo '`src/core/` `src/plan/` `src/cli/`' > ARCHITECTURE.md
    printf '#include <stdio.h>\n#include "core/a.h"\n#include "linnet.h"\n' > src/plan/p.c
    printf '#include "linnet.h"\n#include "cli/options.h"\n' > src/cli/main.c
    echo 'int a;' > src/core/a.h
}

fresh
expect pass "a good tree has good includes" "$tools/check-includes.sh" .
expect pass "a good tree is a good tree" "$tools/check-tree.sh" .
echo '#include "plan/p.h"' > src/core/a.c
expect "core may not depend on plan" "core may not include plan" "$tools/check-includes.sh" .
fresh
echo '#include "plan/p.h"' > src/core/a.cuh
expect "core may not depend on plan" "nor may a file of CUDA" "$tools/check-includes.sh" .
fresh
printf '/* %0108d */\n' 0 > src/core/a.c
expect "longer than 110 columns" "a line ends in time" "$tools/check-tree.sh" .
fresh
echo '#include "core/a.h"' >> src/cli/main.c
expect "only the public headers and cli/" "the tool may not include core" "$tools/check-includes.sh" .
fresh
mkdir src/model && echo '#include "linnet/model.h"' | tee src/model/m.c >> src/cli/main.c
expect pass "models have a header, which the tool uses" "$tools/check-includes.sh" .
echo '#include "linnet/model.h"' > src/plan/q.c
expect "plan is of liblinnet" "attention knows no models" "$tools/check-includes.sh" .
fresh
echo '#include "../core/a.h"' > src/plan/q.c
expect "write the path from src/" "no way around by .." "$tools/check-includes.sh" .
fresh
mkdir src/extra && echo '#include "core/a.h"' > src/extra/e.c
expect "src/extra is not in the list" "a folder has a place in the order" "$tools/check-includes.sh" .
expect 'does not name `src/extra/`' "ARCHITECTURE.md names it" "$tools/check-tree.sh" .
fresh
echo "/* TO""DO later */" > src/core/b.c
expect "put something off" "nothing is put off" "$tools/check-tree.sh" .
fresh
mkdir -p tests/cli tests/unit
printf 'wrong() { exit 1; }\nhave gnuplot || skip "no pictures"\n' > tests/cli/test_a.sh
expect pass "a script may fail, and say that it skips" "$tools/check-tree.sh" .
echo '[ -e /dev/gpu ] || exit'" 0" >> tests/cli/test_a.sh
expect "skip tests unseen" "a script is not skipped as if it had passed" "$tools/check-tree.sh" .
echo 'if (!gpu) skip'"();" > tests/unit/test_a.c && rm tests/cli/test_a.sh
expect "skip tests unseen" "nor is a test in C" "$tools/check-tree.sh" .
fresh
echo 'int on_cpu(struct c *ctx) { return !ctx->device; }' > src/plan/d.c
expect "ask which device it is" "no question for the device above src/device" "$tools/check-tree.sh" .
mv src/plan/d.c src/plan/d_device.c
expect pass "a device may look at itself" "$tools/check-tree.sh" .
fresh
echo 'const char *name(struct c *ctx) { return ctx->device->name; }' > src/plan/d.c
expect pass "a sentence may have its name" "$tools/check-tree.sh" .
fresh
printf '# A page\n[x](b.md#two-words-3) [web](https://a.b) [self](#a-page)\n' > a.md
printf '# Two words, 3\n```\n# no heading\n[not](read)\n```\n' > b.md
expect pass "links that lead somewhere are good" "$tools/check-links.py" .
echo '[x](b.md#no-heading)' >> a.md
expect "a.md: b.md#no-heading: there is no such heading" "a heading is there" "$tools/check-links.py" .
echo '[x](c.md)' > a.md
expect "a.md: c.md: there is no such file" "a file is there" "$tools/check-links.py" .
fresh
mkdir docs
printf '# A page\n\nShort. %s\n' "$(seq -s ' ' 34)" > docs/a.md
head -c 60000 /dev/zero > docs/a.svg
expect pass "short pages and pictures are good" "$tools/check-prose.py" .
printf '%s\n' "$(seq -s ' ' 35)" > README.md
expect "README.md: a sentence of 35 words: 1 2 3" "a sentence ends in time" "$tools/check-prose.py" .
rm README.md && seq -s '. ' 231 | tr ' ' '\n' > docs/b.md
expect "docs/b.md: over 230 lines" "a page ends in time" "$tools/check-prose.py" .
rm docs/b.md && echo >> docs/a.svg
expect "a.svg: over 60000 bytes" "a picture is small" "$tools/check-prose.py" .

cat > "$tmp/good.h" << 'END'
#define LNT_API __attribute__((visibility("default")))
/* LNT_API int lnt_in_a_comment(void); */
LNT_API int lnt_one(int
    x);
LNT_API const char *lnt_two(void);
END
echo 'LINNET_0.2 { global: lnt_*; local: *; }; LINNET_PRIVATE_0.2.0 { global: lnt_private; };' > "$tmp/map"
library() { # C text
    echo "$1" | gcc -shared -fPIC -fvisibility=hidden -include "$tmp/good.h" -x c - -o "$tmp/lib.so" \
        -Wl,--version-script="$tmp/map",-soname,liblinnet.so.0.2 "${@:2}"
}
exports() { "$tools/check-exports.sh" "$tmp/lib.so" "$tmp/good.h" "$@"; }
one='int lnt_one(int x) { return x; }' two='const char *lnt_two(void) { return ""; }'
library "$one $two int lnt_hidden(void) { return 0; }"
expect pass "what is declared is exported" exports
expect "nowhere.so is not there: build all first" "a library that is not built is named" \
    "$tools/check-exports.sh" "$tmp/nowhere.so" "$tmp/good.h"
library "$one"
expect "not exported: lnt_two" "a missing function is named" exports
library "$one $two LNT_API int lnt_extra(void); int lnt_extra(void) { return 0; }"
expect "not declared in $tmp/good.h: lnt_extra" "an extra function is named" exports
library "$one $two" -Wl,--no-as-needed -lresolv
expect "needs libresolv" "another library is named" exports

echo 'LNT_API int lnt_model(void);' | cat "$tmp/good.h" - | grep -v 'lnt_one\|x);\|lnt_two' > "$tmp/model.h"
model() { # C text: a library above the first
    echo "LNT_API int lnt_private(void); LNT_API int lnt_model(void); int lnt_model(void) { return $1; }" |
        gcc -shared -fPIC -include "$tmp/good.h" -x c - -o "$tmp/model.so" -Wl,"$tmp/lib.so"
}
library "$one $two LNT_API int lnt_private(void); int lnt_private(void) { return 0; }"
model 'lnt_private()'
expect pass "the library above uses what is private" exports "$tmp/model.so" "$tmp/model.h"
model 0
expect "which does not need it" "a private function that nobody uses is named" \
    exports "$tmp/model.so" "$tmp/model.h"

expect pass "a clean header is clean" "$tools/check-header.sh" "$tmp/good.h"
echo 'typedef struct { int new; } lnt_keyword;' > "$tmp/bad.h"
expect "as c++17" "a header that is not C++ is caught" "$tools/check-header.sh" "$tmp/bad.h"

fresh
mkdir -p docs src/cuda/host src/cuda/tiles
printf '| family | `tiles` `orbits` |\n| form | `walk` |\n| pass | `sum` `backward` |\n| part | `keys` |\n' > docs/gpu-kernels.md
printf '__global__ void __launch_bounds__(8)\n    tiles_sum_keys_kernel(int a)\n{\n}\n' > src/cuda/tiles/tiles_backward_sum.cu
echo '__global__ void plan_count_kernel(int a) {}' > src/cuda/host/plan.cu
expect pass "good names are good" "$tools/check-cuda-names.sh" .
touch src/cuda/tiles/tiles_read.cu
expect "tiles_read is not tiles[_FORM]" "a pass has the word of the table" "$tools/check-cuda-names.sh" .
mv src/cuda/tiles/tiles_read.cu src/cuda/host/tiles_backward_sum.cu
expect "two sources have the name tiles_backward_sum.cu" "objects have names of their own" "$tools/check-cuda-names.sh" .
rm src/cuda/host/tiles_backward_sum.cu
echo 'template <int X> __global__ void sum_kernel(int a) {' > src/cuda/tiles/tiles.cuh
expect "the kernel sum_kernel is not tiles" "a kernel has its family's name" "$tools/check-cuda-names.sh" .
echo '__global__ void tiles_sum(int a) {' > src/cuda/tiles/tiles.cuh
expect "the kernel tiles_sum is not tiles" "a kernel says that it is one" "$tools/check-cuda-names.sh" .
mkdir src/cuda/squares && mv src/cuda/tiles/tiles.cuh src/cuda/squares/squares.h
expect "squares is no family" "a room is a family's" "$tools/check-cuda-names.sh" .

mkdir "$tmp/now" "$tmp/then"
abi_header() { # fields of lnt_a, fields of lnt_b, arguments of lnt_f
    printf '%s\n' '#include <stddef.h>' '#define LNT_API __attribute__((visibility("default")))' \
        "typedef struct lnt_a { size_t size; $1 } lnt_a;" "typedef struct lnt_b { $2 } lnt_b;" \
        'typedef enum lnt_c { LNT_ONE = 1 } lnt_c;' "LNT_API int lnt_f($3);"
}
abi() { "$tools/check-abi.py" "$tmp/now" "$tmp/then"; }
abi_header 'double x;' 'int i;' 'int a' > "$tmp/then/linnet.h"
abi_header 'double x;' 'int i;' 'int a' > "$tmp/now/linnet.h"
expect pass "an interface is like itself" abi
abi_header 'double x, y;' 'int i;' 'int a' > "$tmp/now/linnet.h"
expect pass "a struct with its size may grow" abi
abi_header 'double y, x;' 'int i;' 'int a' > "$tmp/now/linnet.h"
expect "lnt_a.x was at 8, 8 bytes; is at 16" "a field stays where it was" abi
abi_header 'double x; int y;' 'int i;' 'int a' > "$tmp/now/linnet.h"
expect "lnt_a ends in padding" "a struct with its size has no room that its size hides" abi
abi_header 'double x;' 'int i, j;' 'int a' > "$tmp/now/linnet.h"
expect "lnt_b was at 0, 4 bytes" "a struct without its size stays" abi
abi_header 'double x;' 'int i;' 'long a' > "$tmp/now/linnet.h"
expect "lnt_f was 'int lnt_f(int a)'" "a function stays" abi
abi_header 'double x;' 'int i;' 'int a' | sed 's/LNT_ONE = 1/LNT_ONE = 2/' > "$tmp/now/linnet.h"
expect "LNT_ONE was at 1" "an enumerator stays" abi

exit "$failed"
