#!/usr/bin/env bash
# The GPU plug-in in one call: builds it, verifies it, times it, and PyTorch beside it where that is
# installed.
#
#     bench/gpu.sh [BUILD_FOLDER]                          verify, then time
#     bench/gpu.sh BUILD_FOLDER build
#     bench/gpu.sh BUILD_FOLDER verify [TEST ...] [like=TEXT ...]
#     bench/gpu.sh BUILD_FOLDER time | once | steady [NAME ...]
#     bench/gpu.sh BUILD_FOLDER racecheck | memcheck [TEST ...]
#
# verify: the shapes, gradients and streams of tests/property/test_device_*shapes.c and tests/cuda, some 800
# problems; of the tests named, those whose names have a TEXT.  time: the works that begin with a NAME.  once:
# one run of each, for a profiler.  steady: a hundred backward passes, the same bits.
# racecheck, memcheck: some problems of every test under compute-sanitizer.  racecheck follows only some of the
# barriers that the GPU has, and not what wgmma reads (docs/log/gpu-tuning.md): so it is given some kernels built with
# LNT_RACECHECK.
#
# LNT_CUDA_ARCH=90a (or 80, 86, 89 ...) is the target; the default is that of the first GPU.  LNT_CUDA_CODE=90
# beside LNT_CUDA_ARCH=80 runs on a GPU of 9.0 what one of 8.0 would be given.
set -euo pipefail
source "$(dirname "$0")/gpu_programs.sh"
build=${1:-$root/build/gpu}
shift || true
words=("$@")
[ ${#words[@]} -gt 0 ] || words=(all)

arch=${LNT_CUDA_ARCH:-$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)}
[ "$arch" = 90 ] && arch=90a
flags=(-std=c++17 -O3 -lineinfo -gencode=arch=compute_"$arch",code=sm_"${LNT_CUDA_CODE:-$arch}" -I"$root/src" -I"$root/include"
    -I"$root/bench" -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra -Xptxas -v)
mkdir -p "$build"
generator=()
command -v ninja > /dev/null && generator=(-G Ninja)
library() {
    { cmake -S "$root" -B "$build/cpu" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DLINNET_CUDA=OFF &&
        cmake --build "$build/cpu" -j "$(nproc)"; } > "$build/cpu.log" 2>&1 || { cat "$build/cpu.log"; return 1; }
}
library &
pids=($!)

# Source, name of the object, flags.
compile() {
    local object=$build/$2.o
    if [ "$object" -ot "$1" ] || [ -n "$(find "$root/src/cuda" "$root/bench" -name '*.*h' -newer "$object")" ]; then
        "$nvcc" "${flags[@]}" "${@:3}" -c "$1" -o "$object" > "$object.log" 2>&1 || { cat "$object.log"; return 1; }
    fi
}
hidden=" orbits_walk.cu orbits_relay.cu pairs_sum.cu pairs_answer.cu pairs_backward.cu linear_pass.cu linear_boxes_keys.cu linear_boxes_queries.cu "
objects=() checked=()
for source in $(find "$root/src/cuda" -name "*.c[uc]" | sort); do
    name=$(basename "$source")
    compile "$source" "$name" &
    pids+=($!) objects+=("$build/$name.o")
    if [[ ${words[0]} =~ ^(build|racecheck)$ && $hidden == *" $name "* ]]; then
        compile "$source" "$name.racecheck" -DLNT_RACECHECK &
        pids+=($!) name=$name.racecheck
    fi
    checked+=("$build/$name.o")
done
program=()
for source in "$root"/bench/gpu/*.cu "$root"/bench/gpu/*.cc; do
    name=gpu-$(basename "$source")
    compile "$source" "$name" &
    pids+=($!) program+=("$build/$name.o")
done
for pid in "${pids[@]}"; do wait "$pid"; done

# What to make, and of what, if an object is newer.
link() {
    if [ ! -e "$1" ] || [ -n "$(find "$build" -name '*.o' -newer "$1")" ]; then "$nvcc" -o "$@"; fi
}
link "$build/liblinnet-cuda.so" -shared -cudart static "${objects[@]}"
link "$build/gpu" "${program[@]}" "$build/cpu/liblinnet.a" -lgomp -ldl -lpthread
tests=(property/test_device_shapes property/test_device_gradient_shapes cuda/test_device_streams)
for name in "${tests[@]}"; do
    device_program "$root/tests/$name.c" "$build/${name#*/}" "$build/cpu"
done
export LINNET_CUDA_PLUGIN=$build/liblinnet-cuda.so
[[ ${words[0]} =~ ^(build|racecheck)$ ]] && link "$build/racecheck.so" -shared -cudart static "${checked[@]}"

# Tests, and of each which problems: every kernel, with shapes that reach its corners; the longest first.
problems() {
    cat << 'END'
gradient_shapes pairs|40 heads
shapes pairs|1025 tokens|taylor pairs lengths
shapes pairs|in two parts|output norm
gradient_shapes pairs|1025|lengths
gradient_shapes f32_taylor|20 -> 13|f32 taylor lengths
gradient_shapes mean|mean 1
shapes orbits|runs, 132 heads
shapes orbits|runs, 66 heads
shapes orbits|runs, 198 heads
shapes orbits|6 heads on 2, 211 at
shapes orbits|taylor lengths
shapes orbits|in two parts
shapes orbits|taylorshift
shapes passes|1500 tokens|pass lengths
shapes passes|in two parts|24 -> 40
shapes taylor|d 32 P 4|d 64 P 3
shapes taylor|20 -> 12|output norm
shapes linear|20 -> 12|d 128
shapes softmax|20 -> 12|d 64
shapes step|20 -> 13|decay|slots
shapes f32|20 -> 13|d 8 P 7
shapes f32|linear lengths|softmax lengths
shapes cur|lengths
gradient_shapes boxes|
gradient_shapes linear|20 -> 12|lengths
gradient_shapes taylor|20 -> 12|output norm, causal
gradient_shapes taylor|d 64 P 4 causal|d 32 P 4 full
gradient_shapes softmax|20 -> 12
gradient_shapes f32|20 -> 12
gradient_shapes parts|d 8 P 6|d 9 P 6
END
}

# The problems $3 under the tool $1 upon the library $2; a line about them.
sanitize() {
    local log="$build/$1-$4.log" seconds=$SECONDS parts program words count found
    IFS='|' read -ra parts <<< "$3"
    program=test_device_${parts[0]% *} words=("${parts[0]#* }")
    for part in "${parts[@]:1}"; do words+=("like=$part"); done
    LINNET_CUDA_PLUGIN=$2 "$sanitizer" --tool "$1" --print-limit 20 "$build/$program" "${words[@]}" > "$log" 2>&1 || true
    count=$(grep -c ' ok$' "$log" || true)
    found=$(grep -o 'SUMMARY: .*' "$log" | tail -1)
    [ "$count" -gt 0 ] && ! grep -qE ' WRONG|FAILED' "$log" || found="FAILED, see $log"
    printf '%-9s %-60s %3d problems, %3d s: %s\n' "$1" "$program ${words[*]}" "$count" $((SECONDS - seconds)) "$found"
}

# Every program over the problems named; how many were right.
verify() {
    local name
    for name in "${tests[@]}"; do "$build/${name#*/}" "$@" || echo "FAILED: $name"; done | tee "$build/verify.txt" |
        grep -E ' (ok|WRONG)|^(FAILED|SKIP)'
    echo "$(grep -c ' ok$' "$build/verify.txt") problems are right, $(grep -c ' WRONG' "$build/verify.txt") WRONG"
    ! grep -qE ' WRONG|FAILED|SKIP' "$build/verify.txt"
}

case ${words[0]} in
build) exit ;;
racecheck | memcheck)
    sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
    library=$build/liblinnet-cuda.so number=0
    [ "${words[0]}" = memcheck ] || library=$build/racecheck.so
    while read -r line; do
        [ ${#words[@]} -eq 1 ] || [[ " ${words[*]:1} " == *" $(cut -d'|' -f1 <<< "${line#* }") "* ]] || continue
        while [ "$(jobs -r | wc -l)" -ge 12 ]; do wait -n; done
        number=$((number + 1))
        sanitize "${words[0]}" "$library" "$line" $number &
    done < <(problems) | tee "$build/${words[0]}.txt"
    ! grep -qv 'SUMMARY: 0 ' "$build/${words[0]}.txt"
    exit
    ;;
verify)
    verify "${words[@]:1}"
    exit
    ;;
all)
    verify
    "$build/gpu" "$LINNET_CUDA_PLUGIN"
    python3 -c 'import torch' 2> /dev/null && python3 "$root/bench/gpu_peers.py"
    exit
    ;;
time) words=("${words[@]:1}") ;;
esac
"$build/gpu" "$LINNET_CUDA_PLUGIN" "${words[@]}"
