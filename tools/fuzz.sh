#!/usr/bin/env bash
# Feeds changed files to what reads files, under sanitizers: each target of tests/fuzz in turn.
#
#     tools/fuzz.sh [SECONDS [target ...]]      60 seconds in all, every target
#
# What an input found new stays in build/fuzz/corpus, and the next run begins there.  An input that broke something
# is left in build/fuzz/findings, and its name is the last line; `build/fuzz/fuzz_<target> FILE` runs it again.
# Exits with 77 where libFuzzer is not installed.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift $(($# > 0))
[[ $seconds =~ ^[1-9][0-9]{0,5}$ ]] || { echo "fuzz: '$seconds' is no number of seconds from 1" >&2; exit 2; }

if ! echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
    clang -fsanitize=fuzzer -x c - -o /dev/null > /dev/null 2>&1; then
    echo "SKIPPED: libFuzzer is not installed; it is in the package libclang-rt-dev"
    exit 77
fi

out=build/fuzz
log=$out/fuzz-log.txt
mkdir -p "$out"
{ cmake --preset fuzz && cmake --build --preset fuzz -j "$(nproc)"; } > "$log" 2>&1 ||
    { cat "$log"; echo "fuzz: the build failed" >&2; exit 1; }

if [ $# = 0 ]; then
    for source in tests/fuzz/fuzz_*.c; do
        name=${source##*/fuzz_}
        set -- "$@" "${name%.c}"
    done
fi
each=$(((seconds + $# - 1) / $#))

rm -rf "$out/seeds"
"$out/fuzz_seeds" "$out/seeds"
mkdir -p "$out/findings"
# A reader may take memory in proportion to its file, and files here are short: 64 MiB at once would be a lie believed.
limits=(-max_len=65536 -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=64)
for name; do
    mkdir -p "$out/corpus/$name"
    status=0
    "$out/fuzz_$name" "${limits[@]}" -max_total_time="$each" -print_final_stats=1 -verbosity=1 \
        -artifact_prefix="$out/findings/$name-" "$out/corpus/$name" "$out/seeds/$name" > "$log" 2>&1 || status=$?
    if [ "$status" != 0 ]; then
        tail -n 60 "$log"
        echo "fuzz: target $name failed; its input:"
        ls -t "$out/findings/$name-"* 2> /dev/null | head -n 1
        exit 1
    fi
    printf '   %-12s %9s inputs, %5s in the corpus\n' "$name" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$(find "$out/corpus/$name" -type f | wc -l)"
done
