#!/usr/bin/env bash
# The GPU plug-in in one call: builds it, verifies it, times it, and PyTorch beside it where that is
# installed.
#
#     bench/gpu.sh [BUILD_FOLDER] [verify] [time] [once] [NAME ...]     without words: verify time
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
flags=(-std=c++17 -O3 -gencode=arch=compute_"$arch",code=sm_"${LNT_CUDA_CODE:-$arch}" -I"$root/src" -I"$root/include"
    -I"$root/bench" -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra -Xptxas -v)
mkdir -p "$build"

compile() {
    local object=$build/$(basename "$1").o
    if [ "$object" -ot "$1" ] || [ -n "$(find "$root/src/cuda" "$root/bench" -name '*.*h' -newer "$object")" ]; then
        "$nvcc" "${flags[@]}" -c "$1" -o "$object" > "$object.log" 2>&1 || { cat "$object.log"; return 1; }
    fi
}
pids=()
for source in "$root"/src/cuda/*.cu "$root"/src/cuda/*.cc "$root"/bench/gpu.cu; do
    compile "$source" &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done
objects=()
for source in "$root"/src/cuda/*.cu "$root"/src/cuda/*.cc; do objects+=("$build/$(basename "$source").o"); done
"$nvcc" -shared -cudart static -o "$build/liblinnet-cuda.so" "${objects[@]}"
"$nvcc" -o "$build/gpu" "$build/gpu.cu.o" -ldl -lpthread

"$build/gpu" "$build/liblinnet-cuda.so" "${words[@]}"
if [[ " ${words[*]} " == *" time "* ]] && python3 -c 'import torch' 2> /dev/null; then
    python3 "$root/bench/gpu_peers.py"
fi
