# Sourced by gpu.sh and gpu_tests.sh: device_program SOURCE OUT LIBRARY_FOLDER builds a test of the device
# without CMake.  Where cmocka is not installed, a header that does as much of it as these tests use stands in.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
cuda=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
includes=(-I"$root/include" -I"$root/src" -I"$root/tests/support" -I"$root/tests" -I"$cuda/include")
libraries=(-L"$cuda/lib64" -lcudart_static -lm -ldl -lrt -lpthread)
if printf '#include <%s.h>\n' setjmp stdarg stddef stdint cmocka | cc -E -x c - > /dev/null 2>&1; then
    libraries=(-lcmocka "${libraries[@]}")
else
    includes+=(-I"$root/tests/standin")
fi

device_program() {
    cc -std=c11 -D_GNU_SOURCE -O2 -fopenmp "${includes[@]}" "$1" \
        "$root"/tests/support/{support,case,mask,stream,mirror,device,backward,device_backward,shapes,shapes_backward}.c \
        "$3/liblinnet.a" "${libraries[@]}" -o "$2"
}
