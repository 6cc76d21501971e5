# The plug-in for NVIDIA GPUs, liblinnet-cuda.so: built where there is nvcc, opened at run time by a
# library that needs neither.  LINNET_CUDA=ON makes a missing nvcc an error, OFF leaves it out.
#
# Machine code for 9.0a, whose tensor-core instructions nothing else has, and PTX of 8.0, which the driver
# of any other GPU from there on compiles when it first loads it and keeps.  Those who ship to such GPUs
# spare them that: CMAKE_CUDA_ARCHITECTURES="80-real;89-real;90a-real".
set(LINNET_CUDA AUTO CACHE STRING "Build the GPU plug-in: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE LINNET_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT LINNET_CUDA MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "LINNET_CUDA is '${LINNET_CUDA}', must be AUTO, ON or OFF")
endif()

set(linnet_cuda_built FALSE)
if(LINNET_CUDA STREQUAL "OFF" OR (LINNET_CUDA STREQUAL "AUTO" AND
                                  (CMAKE_CROSSCOMPILING OR LINNET_SANITIZE)))
    return()
endif()

find_program(LINNET_NVCC nvcc PATHS /usr/local/cuda/bin)
if(NOT LINNET_NVCC)
    if(LINNET_CUDA STREQUAL "ON")
        message(FATAL_ERROR "LINNET_CUDA is ON, and nvcc is neither in PATH nor in /usr/local/cuda/bin")
    endif()
    return()
endif()

set(CMAKE_CUDA_COMPILER ${LINNET_NVCC})
if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-virtual 90a-real)
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Static) # no CUDA library to find, but the driver
enable_language(CXX)
enable_language(CUDA)
include(CheckCompilerFlag)

file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS src/cuda/*.cu src/cuda/*.cc)
add_library(linnet_cuda MODULE ${cuda_sources})
set_target_properties(linnet_cuda PROPERTIES OUTPUT_NAME linnet-cuda
                      CXX_STANDARD 17 CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON
                      CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
if(NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set_target_properties(linnet_cuda PROPERTIES
                          CUDA_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/tools/quiet-nvcc.sh)
endif()
target_include_directories(linnet_cuda PRIVATE include src)
set(level -O3)
if(LINNET_TESTS AND NOT EXISTS /dev/nvidiactl) # nothing to run it on: an eighth of the time will do
    set(level -O0)
    set(CMAKE_CUDA_FLAGS_RELEASE -DNDEBUG) # one level only, or nvcc warns
    check_compiler_flag(CUDA -Ofc=max LINNET_NVCC_HURRIES)
    target_compile_options(linnet_cuda PRIVATE
        $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${LINNET_NVCC_HURRIES}>>:-Ofc=max>)
endif()
target_compile_options(linnet_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:${level} -Xcompiler=-Wall,-Wextra>
    $<$<COMPILE_LANGUAGE:CXX>:${level} -Wall -Wextra>)
set(linnet_cuda_built TRUE)
