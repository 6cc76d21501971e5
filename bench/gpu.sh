#!/usr/bin/env bash
# The GPU plug-in in one call: builds it, verifies it, times it, and PyTorch beside it where that is
# installed.
#
#     bench/gpu.sh [BUILD_FOLDER] [verify] [time] [once] [steady] [NAME ...]     without words: verify time
#     bench/gpu.sh BUILD_FOLDER build | racecheck [FAMILY ...] | memcheck [FAMILY ...]
#
# racecheck, memcheck: problems of every family under compute-sanitizer.  racecheck follows only some of the
# barriers that the GPU has, and not what wgmma reads (docs/log/gpu-tuning.md): so it is given some kernels built with
# LNT_RACECHECK.
#
# LNT_CUDA_ARCH=90a (or 80, 86, 89 ...) is the target; the default is that of the first GPU.  LNT_CUDA_CODE=90
# beside LNT_CUDA_ARCH=80 runs on a GPU of 9.0 what one of 8.0 would be given.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build/gpu}
shift || true
words=("$@")
[ ${#words[@]} -gt 0 ] || words=(verify time)

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
arch=${LNT_CUDA_ARCH:-$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)}
[ "$arch" = 90 ] && arch=90a
flags=(-std=c++17 -O3 -lineinfo -gencode=arch=compute_"$arch",code=sm_"${LNT_CUDA_CODE:-$arch}" -I"$root/src" -I"$root/include"
    -I"$root/bench" -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra -Xptxas -v)
mkdir -p "$build"

# Source, name of the object, flags.
compile() {
    local object=$build/$2.o
    if [ "$object" -ot "$1" ] || [ -n "$(find "$root/src/cuda" "$root/bench" -name '*.*h' -newer "$object")" ]; then
        "$nvcc" "${flags[@]}" "${@:3}" -c "$1" -o "$object" > "$object.log" 2>&1 || { cat "$object.log"; return 1; }
    fi
}
hidden=" orbits_walk.cu orbits_relay.cu pairs_sum.cu pairs_answer.cu pairs_backward.cu linear_pass.cu linear_boxes_keys.cu linear_boxes_queries.cu "
pids=() objects=() checked=()
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
link "$build/gpu" "${program[@]}" -ldl -lpthread
[[ ${words[0]} =~ ^(build|racecheck)$ ]] && link "$build/racecheck.so" -shared -cudart static "${checked[@]}"

# Families, and of each which problems: every kernel, with shapes that reach its corners; the longest first.
problems() {
    cat << 'END'
backward_pairs|40 heads
pairs|1025 tokens|taylor pairs lengths
pairs|in two parts|output norm
backward_pairs|1025|lengths
backward_split_taylor|20 -> 13|f32 taylor lengths
backward_mean|mean 1
orbits|runs, 132 heads
orbits|runs, 66 heads
orbits|runs, 198 heads
orbits|6 heads on 2, 211 at
orbits|taylor lengths
orbits|in two parts
orbits|taylorshift
passes|1500 tokens|pass lengths
passes|in two parts|24 -> 40
taylor|d 32 P 4|d 64 P 3
taylor|20 -> 12|output norm
linear|20 -> 12|d 128
softmax|20 -> 12|d 64
step|20 -> 13|decay|slots
split|20 -> 13|d 8 P 7
split|linear lengths|softmax lengths
cur|lengths
backward_boxes|
backward_linear|20 -> 12|lengths
backward_taylor|20 -> 12|output norm, causal
backward_taylor|d 64 P 4 causal|d 32 P 4 full
backward_softmax|20 -> 12
backward_split|20 -> 12
backward_parts|d 8 P 6|d 9 P 6
END
}

# The problems $3 under the tool $1 upon the library $2; a line about them.
sanitize() {
    local log="$build/$1-$4.log" seconds=$SECONDS parts words count found
    IFS='|' read -ra parts <<< "$3"
    words=("${parts[0]}")
    for part in "${parts[@]:1}"; do words+=("like=$part"); done
    "$sanitizer" --tool "$1" --print-limit 20 "$build/gpu" "$2" verify "${words[@]}" > "$log" 2>&1 || true
    count=$(grep -c ' ok$' "$log" || true)
    found=$(grep -o 'SUMMARY: .*' "$log" | tail -1)
    [ "$count" -gt 0 ] && grep -q '^all right' "$log" || found="FAILED, see $log"
    printf '%-9s %-60s %3d problems, %3d s: %s\n' "$1" "${words[*]}" "$count" $((SECONDS - seconds)) "$found"
}

case ${words[0]} in
build) exit ;;
racecheck | memcheck)
    sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
    library=$build/liblinnet-cuda.so number=0
    [ "${words[0]}" = memcheck ] || library=$build/racecheck.so
    while read -r line; do
        [ ${#words[@]} -eq 1 ] || [[ " ${words[*]:1} " == *" ${line%%|*} "* ]] || continue
        while [ "$(jobs -r | wc -l)" -ge 12 ]; do wait -n; done
        number=$((number + 1))
        sanitize "${words[0]}" "$library" "$line" $number &
    done < <(problems) | tee "$build/${words[0]}.txt"
    ! grep -qv 'SUMMARY: 0 ' "$build/${words[0]}.txt"
    exit
    ;;
esac

"$build/gpu" "$build/liblinnet-cuda.so" "${words[@]}"
if [[ " ${words[*]} " == *" time "* ]] && python3 -c 'import torch' 2> /dev/null; then
    python3 "$root/bench/gpu_peers.py"
fi
