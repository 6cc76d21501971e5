#!/usr/bin/env bash
# The property tests of the device, and the tool on it, on a machine with nvcc and a GPU: builds the
# library and the plug-in for that GPU alone, runs the tests, then info, plan, attend and bench.
#
#     bench/gpu_tests.sh [BUILD_FOLDER]
#
# LNT_CUDA_ARCH=90a (or 80, 86, 89 ...) is the target; the default is that of the first GPU.
# LNT_UNDER is a command to run the tests under ("compute-sanitizer --error-exitcode 1"; with LINNET_TEST_BUDGET=small).
set -euo pipefail
source "$(dirname "$0")/gpu_programs.sh"
build=${1:-$root/build/gpu-tests}
arch=${LNT_CUDA_ARCH:-$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)}
[ "$arch" = 90 ] && arch=90a
mkdir -p "$(dirname "$build")"
generator=()
command -v ninja > /dev/null && generator=(-G Ninja)

cmake -S "$root" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DLINNET_CUDA=ON \
    -DCMAKE_CUDA_ARCHITECTURES="$arch-real" > "$build.log" 2>&1 || { cat "$build.log"; exit 1; }
cmake --build "$build" -j "$(nproc)" > "$build.log" 2>&1 || { tail -n 50 "$build.log"; exit 1; }
echo "built for $arch in ${SECONDS} s"

status=0
cd "$build"
export LINNET_CUDA_PLUGIN=$build/liblinnet-cuda.so
for name in test_device test_device_state test_device_gradient; do
    device_program "$root/tests/property/$name.c" "$name" "$build"
    ${LNT_UNDER-} "./$name" || status=$?
    [ "$status" != 77 ] || { echo "there is no GPU here"; exit 77; }
    echo "$name: exit $status, ${SECONDS} s"
done

tool=$build/linnet
run() { echo "+ linnet $*"; "$tool" "$@" || status=1; }
run info
run plan --mechanism taylor --dtype bf16 --heads 32 --dim 32 --length 65536 --causal --device cuda
for name in q k v; do python3 "$root/tools/random-npy.py" "$name.npy" 4 1500 32; done
same() { python3 "$root/tests/cli/npy.py" same "$1" "$2" 0.01 && echo "$1 is $2" || status=1; }
attend=(attend q.npy k.npy v.npy --mechanism taylor --terms 3 --causal --dtype bf16)
run "${attend[@]}" -o cpu.npy
run "${attend[@]}" -o gpu.npy --device cuda --compare softmax
same gpu.npy cpu.npy
run "${attend[@]}" -o chunks.npy --device cuda --chunk 300 --state-out state.safetensors
same chunks.npy cpu.npy
run "${attend[@]}" -o after_cpu.npy --state-in state.safetensors
run "${attend[@]}" -o after_gpu.npy --state-in state.safetensors --device cuda
same after_gpu.npy after_cpu.npy
run bench --mechanism taylor --heads 32 --dim 32 --length 65536 --causal --dtype bf16 --device cuda
run bench --mechanism linear --heads 16 --dim 64 --length 16384 --causal --dtype bf16 --device cuda
run bench --mechanism softmax --heads 16 --dim 64 --length 16384 --causal --dtype bf16 --device cuda
for mechanism in taylor linear softmax; do
    run bench --mechanism $mechanism --heads 16 --dim 32 --length 16384 --causal --dtype bf16 \
        --pass backward --device cuda
done
run bench --mechanism taylor --heads 32 --dim 32 --length 65536 --pass step --dtype bf16 --device cuda
run bench --mechanism linear --heads 16 --dim 64 --length 65536 --pass step --dtype f32 --device cuda
echo "all: exit $status, ${SECONDS} s"
exit "$status"
