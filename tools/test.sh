#!/usr/bin/env bash
# Builds Linnet every way that is supported and tests it; stops at the first stage that fails.
#
#     tools/test.sh [stage ...]
#
# `test`, the default, stands for gcc install lint, which need one build; `check` for what comes after: clang
# asan tsan valgrind fuzz cross; `all` for both.  The builds stay under build/, so a second run compiles only
# what changed.
set -Eeuo pipefail
cd "$(dirname "$0")/.."

jobs=$(nproc)
log=build/test-log
tmp=$(mktemp -d)
passed=0 failed=0 skipped=0 stage=none stage_done=yes
runner=(env)
unset LINNET_ISA
mkdir -p "$log"

finish() {
    local status=$?
    rm -rf "$tmp"
    echo
    if [ "$status" != 0 ] && [ "$stage_done" = no ]; then
        echo "stage '$stage' failed; run it alone with: make test STAGES=$stage"
    fi
    echo "$passed passed, $failed failed, $skipped skipped in ${SECONDS} s"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { echo "-- $*"; }
fail() { echo "$stage: $*" >&2; exit 1; }

need() {
    local program
    for program; do
        command -v "$program" > /dev/null || fail "'$program' is not installed; see tools/setup.sh"
    done
}

# Configures and builds a preset, showing what was said only if it went wrong.
build() { # preset, target ...
    local preset=$1 out=$log/$1-build.txt
    shift
    say "building $preset"
    cmake --preset "$preset" > "$out" 2>&1 || { cat "$out"; fail "cmake --preset $preset failed"; }
    cmake --build --preset "$preset" -j "$jobs" ${1+--target "$@"} > "$out" 2>&1 ||
        { grep -v '^\[[0-9/]*\] ' "$out"; fail "the build failed; its output is above"; }
}

attribute() { grep -oE "\b$1=\"[0-9]+\"" "$2" | head -n 1 | grep -oE '[0-9]+'; }

# Runs ctest on a preset and adds its counts to the total.
check() { # preset, ctest arguments ...
    local preset=$1 status=0 report=$PWD/$log/$1.xml bad without
    shift
    rm -f "$report"
    "${runner[@]}" ctest --preset "$preset" -j "$jobs" --output-junit "$report" "$@" > "$tmp/ctest" 2>&1 || status=$?
    [ -s "$report" ] || { cat "$tmp/ctest"; fail "ctest ran no test"; }
    bad=$(attribute failures "$report")
    without=$(($(attribute skipped "$report") + $(attribute disabled "$report")))
    failed=$((failed + bad)) skipped=$((skipped + without))
    passed=$((passed + $(attribute tests "$report") - bad - without))
    if [ "$status" != 0 ]; then
        cat "$tmp/ctest"
        fail "tests failed; their output is above"
    fi
    grep -E '^ *[0-9]+/[0-9]+ Test' "$tmp/ctest" | sed -E 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: /   /'
    if [ "$without" != 0 ]; then
        say "$without SKIPPED, for"
        { grep -ohE 'SKIPPED: .*' "$report" || echo "a test that does not say why: $report"; } | sort | uniq -c
    fi
}

# What lies between a caller and a GPU plug-in does not change with instruction set or threads.
wiring='_on_the_fake_plugin$'

stage_gcc() {
    need gcc g++ python3
    build gcc
    say "all tests, best instruction set"
    check gcc -LE lint
    local isa some
    for isa in $(build/gcc/linnet_isas | head -n -1); do
        say "unit and property tests, fewer cases, LINNET_ISA=$isa"
        some=. # neon and avx512 are not the best where dotprod and vnni are, which differ in weights alone
        case $isa in neon | avx512) some='^unit/test_(core|weight)$' ;; esac
        LINNET_ISA=$isa LINNET_TEST_BUDGET=small check gcc -L '^(unit|property)$' -R "$some" -E "$wiring"
    done
}

stage_clang() {
    need clang clang++
    build clang
    check clang -L '^(unit|property)$'
}

# The sanitizers of older compilers cannot place their shadow memory when the kernel spreads
# addresses far, so their programs run without that where it may be switched off.
plain_addresses() {
    if setarch -R true 2> /dev/null; then runner=(setarch -R); fi
}

stage_asan() { # gcc: clang needs minutes for the unrolled kernels under all these checks
    need gcc g++
    plain_addresses
    build asan
    # Not those that only measure time: slowed down they say nothing and take minutes.
    check asan -L '^(unit|property|cli|canary)$' -E '^cli/test_(bench|demo)$'
}

stage_tsan() {
    need clang clang++
    plain_addresses
    build tsan
    check tsan -L '^(unit|property|canary)$' -E "$wiring"
}

stage_valgrind() {
    need valgrind python3
    build gcc
    local name mechanism memcheck
    memcheck=(env LINNET_TEST_BUDGET=small OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive
              valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite)
    say "unit/test_npy"
    "${memcheck[@]}" build/gcc/unit_test_npy > "$tmp/out" 2>&1 || { cat "$tmp/out"; fail "unit/test_npy"; }
    for name in q k v; do tools/random-npy.py "$tmp/$name.npy" 2 37 16; done
    for mechanism in softmax linear; do
        say "linnet attend --mechanism $mechanism"
        "${memcheck[@]}" build/gcc/linnet attend "$tmp"/{q,k,v}.npy -o "$tmp/y.npy" \
            --mechanism "$mechanism" --causal > "$tmp/out" 2>&1 || { cat "$tmp/out"; fail "attend"; }
        [ -s "$tmp/y.npy" ] || fail "linnet attend wrote nothing"
    done
    passed=$((passed + 3))
}

stage_fuzz() {
    local status=0
    tools/fuzz.sh 60 || status=$?
    case $status in
    0) passed=$((passed + $(find tests/fuzz -name 'fuzz_*.c' | wc -l))) ;;
    77) skipped=$((skipped + 1)) ;;
    *) fail "an input broke a target, or nothing could be built; see above" ;;
    esac
}

stage_cross() {
    local other
    case $(uname -m) in
    x86_64) other=aarch64 ;;
    aarch64) other=x86_64 ;;
    *) fail "no cross test from $(uname -m); x86_64 and aarch64 have one" ;;
    esac
    need "$other-linux-gnu-gcc" "qemu-$other"
    tools/cross-sysroot.sh "$other" "build/cross-sysroot/$other"
    build "cross-$other"
    # The best instruction set that qemu has; the property tests themselves walk the others.
    local emulator best
    IFS=';' read -ra emulator <<< "$(sed -n 's/^set(CMAKE_CROSSCOMPILING_EMULATOR \(.*\))/\1/p' \
                                        "cmake/toolchain-$other.cmake")"
    best=$("${emulator[@]}" "build/cross-$other/linnet_isas" | tail -n 1)
    [ "$best" != scalar ] || fail "${emulator[0]} offers no vector instructions"
    say "unit and property tests on $other, $best"
    # Not training, which takes minutes there and is made of what the others test, nor threads, lanes and
    # memory: how work is divided, and what is done without room, does not change with the instruction set.
    check "cross-$other" -L '^(unit|property)$' -E "$wiring|^property/test_(training|threads|lanes|memory)$"
}

examples() { # prefix
    rm -rf "$tmp/examples"
    cmake -S examples -B "$tmp/examples" -DCMAKE_PREFIX_PATH="$1" > "$tmp/out" 2>&1 ||
        { cat "$tmp/out"; fail "find_package(linnet) failed"; }
    cmake --build "$tmp/examples" > "$tmp/out" 2>&1 || { cat "$tmp/out"; fail "the examples"; }
}

# One example by find_package, then by pkg-config, with the shared libraries and with the static ones.
example() { # source, pkg-config module, arguments of the program
    local name=$1 module=$2 flags static strict=(-std=c11 -Wall -Wextra -Wpedantic -Werror)
    shift 2
    read -ra flags <<< "$(pkg-config --cflags --libs "$module")"
    read -ra static <<< "$(pkg-config --static --cflags --libs "$module" | sed -E 's/-l(linnet[a-z-]*)/-l:lib\1.a/g')"
    "$tmp/examples/$name" "$@" > "$tmp/out" || fail "$name by find_package"
    "$tmp/examples/${name}_static" "$@" | diff "$tmp/out" - || fail "$name by find_package, static"
    gcc "${strict[@]}" "examples/$name.c" -o "$tmp/$name" "${flags[@]}"
    LD_LIBRARY_PATH=$(pkg-config --variable=libdir linnet) "$tmp/$name" "$@" | diff "$tmp/out" - ||
        fail "$name by pkg-config"
    gcc "${strict[@]}" "examples/$name.c" -o "$tmp/$name" "${static[@]}"
    "$tmp/$name" "$@" | diff "$tmp/out" - || fail "$name by pkg-config, static"
    passed=$((passed + 4))
}

stage_install() {
    need pkg-config
    build gcc
    local prefix=$tmp/prefix component
    # Attention first and alone, as its packages would come.
    for component in runtime development; do
        cmake --install build/gcc --prefix "$prefix" --component "$component" > "$tmp/out" ||
            { cat "$tmp/out"; fail "cmake --install"; }
    done
    PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name linnet.pc)")
    export PKG_CONFIG_PATH
    say "attention alone"
    ! find "$prefix" | grep -i model || fail "liblinnet is installed with something of liblinnet-model"
    examples "$prefix"
    example attend linnet
    tools/readme-example.sh README.md example > "$tmp/readme.c"
    tools/readme-example.sh README.md output > "$tmp/expected"
    read -ra flags <<< "$(pkg-config --cflags --libs linnet)"
    gcc -std=c11 -Wall -Wextra -Wpedantic -Werror "$tmp/readme.c" -o "$tmp/readme" "${flags[@]}"
    LD_LIBRARY_PATH=$(pkg-config --variable=libdir linnet) "$tmp/readme" > "$tmp/out" || fail "the example of README.md fails"
    diff "$tmp/expected" "$tmp/out" || fail "the example of README.md prints something else"

    say "models above it, and the tool"
    cmake --install build/gcc --prefix "$prefix" > "$tmp/out" || { cat "$tmp/out"; fail "cmake --install"; }
    "$prefix/bin/linnet" --version > /dev/null || fail "the installed tool does not run"
    examples "$prefix"
    example generate linnet-model models/default.safetensors "The king"
    passed=$((passed + 2))
}

stage_lint() {
    need gcc g++ clang clang++
    build gcc
    check gcc -L '^lint$'
}

headline() {
    case $1 in
    gcc) echo "gcc: warnings are errors, every test, every instruction set of this machine" ;;
    clang) echo "clang: warnings are errors, asserts on" ;;
    asan) echo "AddressSanitizer and UndefinedBehaviorSanitizer" ;;
    tsan) echo "ThreadSanitizer" ;;
    valgrind) echo "valgrind memcheck on a small run" ;;
    fuzz) echo "libFuzzer: a minute of changed files" ;;
    cross) echo "the other architecture, under qemu" ;;
    install) echo "install, and build the examples against what was installed" ;;
    lint) echo "lints: exported symbols, header, includes, tree, links" ;;
    *) fail "there is no stage '$1'; there are: gcc install lint clang asan tsan valgrind fuzz cross" ;;
    esac
}

test=(gcc install lint) check=(clang asan tsan valgrind fuzz cross)
[ $# -gt 0 ] || set -- test
stages=()
for stage; do
    case $stage in
    test) stages+=("${test[@]}") ;;
    check) stages+=("${check[@]}") ;;
    all) stages+=("${test[@]}" "${check[@]}") ;;
    *) stages+=("$stage") ;;
    esac
done
for stage in "${stages[@]}"; do headline "$stage" > /dev/null; done
number=0
for stage in "${stages[@]}"; do
    number=$((number + 1)) started=$SECONDS stage_done=no
    printf '\n== %d/%d %s\n' "$number" "${#stages[@]}" "$(headline "$stage")"
    runner=(env)
    "stage_$stage"
    stage_done=yes
    echo "-- ok, $((SECONDS - started)) s"
done
