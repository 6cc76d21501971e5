# Cross-compiles to x86_64 Linux with Debian's compiler and runs the result under qemu-user.
# tools/cross-sysroot.sh puts cmocka for that architecture into build/cross-sysroot/x86_64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-linux-gnu-gcc)

set(CMAKE_FIND_ROOT_PATH ${CMAKE_CURRENT_LIST_DIR}/../build/cross-sysroot/x86_64)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)

# "max" is the one model of qemu that has AVX2.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-x86_64;-cpu;max;-L;/usr/x86_64-linux-gnu)
