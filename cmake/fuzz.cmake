# Fuzz targets (LINNET_FUZZ): a program fuzz_<name> of each tests/fuzz/fuzz_<name>.c by clang's libFuzzer, and
# fuzz_seeds, which writes what they begin with.  tools/fuzz.sh runs them.

set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
check_c_source_compiles("int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n > 99; }"
                        LINNET_HAVE_FUZZER)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT LINNET_HAVE_FUZZER OR NOT LINNET_MODEL)
    message(FATAL_ERROR "LINNET_FUZZ needs LINNET_MODEL and clang with libFuzzer, which is in the package "
                        "libclang-rt-dev; ${CMAKE_C_COMPILER} has none")
endif()

add_library(linnet_fuzz STATIC tests/fuzz/fuzz.c tests/support/gguf_file.c tests/support/image_file.c
            tests/support/llama_file.c tests/support/llama2c_file.c)
target_compile_definitions(linnet_fuzz PUBLIC ${linnet_image_definitions})
target_include_directories(linnet_fuzz PUBLIC src tests/support tests/fuzz)
target_compile_options(linnet_fuzz PRIVATE ${linnet_warnings})
target_link_libraries(linnet_fuzz PUBLIC linnet_model_static)

add_executable(fuzz_seeds tests/fuzz/seeds.c)
target_compile_options(fuzz_seeds PRIVATE ${linnet_warnings})
target_link_libraries(fuzz_seeds PRIVATE linnet_fuzz)

add_custom_target(fuzz DEPENDS fuzz_seeds)
file(GLOB sources CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_compile_options(${name} PRIVATE ${linnet_warnings})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${name} PRIVATE linnet_fuzz)
    add_dependencies(fuzz ${name})
endforeach()
