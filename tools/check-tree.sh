#!/usr/bin/env bash
# The tree as a whole: ARCHITECTURE.md names every folder of src, nothing is put off to later, no test skips
# unseen, nobody asks which device a context has, and lines end in time.
#
#     tools/check-tree.sh REPOSITORY
set -euo pipefail
cd "$1"

bad=0
while read -r folder; do
    grep -qF -e "\`$folder/\`" -e "\`${folder##*/}/\`" ARCHITECTURE.md ||
        { bad=1; echo "ARCHITECTURE.md does not name \`$folder/\`"; }
done < <(find src -mindepth 1 -type d | sort)

folders=()
for folder in include src tests examples bench tools cmake docs; do
    [ -d "$folder" ] && folders+=("$folder")
done
# ctest knows a skip by 77, which the helpers of the tests see to.
if [ -d tests ] && grep -rnE '(^|[;&|] *)exit 0|\bskip\(\)|return 77' --include='test_*' tests; then
    bad=1
    echo "the lines above skip tests unseen; use skip and have of tests/cli/support.sh, or skip_because"
fi
# Spelled so that this file does not find itself.
if grep -rnE --exclude-dir=build '\b(TO[D]O|FI[X]ME|X[X]X)\b' "${folders[@]}"; then
    bad=1
    echo "the lines above put something off; do it, or open an issue"
fi
# Which device a context has: its table of functions answers in place of the question.
if grep -rnE 'ctx->device([^-_]|$)|->device->ops *[!=]=|&lnt_device_cpu|lnt_cuda_|"device/plugin|strcmp\([^,]*device[^,]*,' \
    src --include='*.[ch]' | grep -vE '^src/(device/|cuda/|plan/([a-z]+_device|devices)\.c)'; then
    bad=1
    echo "the lines above ask which device it is; src/device/device.h has a function for what they do"
fi
if LC_ALL=C.UTF-8 grep -rnE --exclude-dir=build --include='*.[ch]' --include='*.cc' --include='*.cu' \
    --include='*.cuh' '^.{111,}' "${folders[@]}"; then
    bad=1
    echo "the lines above are longer than 110 columns"
fi
exit "$bad"
