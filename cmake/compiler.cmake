# What every compiler call gets, and what the compiler must be able to do.
include(CheckCSourceCompiles)
include(CheckSymbolExists)

set(linnet_warnings -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(LINNET_WERROR)
    list(APPEND linnet_warnings -Werror)
endif()

add_compile_definitions(_GNU_SOURCE)
if(LINNET_SANITIZE)
    add_compile_options(-fsanitize=${LINNET_SANITIZE} -fno-sanitize-recover=all
                        -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${LINNET_SANITIZE})
endif()

# -fopenmp rather than CMake's OpenMP package: gcc and clang both know it, for C and for C++, so the
# installed static library can pass it on to whoever links it.
set(CMAKE_REQUIRED_FLAGS -fopenmp)
check_c_source_compiles("#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }"
                        LINNET_HAVE_OPENMP)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT LINNET_HAVE_OPENMP)
    message(FATAL_ERROR "${CMAKE_C_COMPILER} cannot build an OpenMP program with -fopenmp; "
                        "clang needs the package libomp-dev")
endif()

# Asked of the compiler, not of CMAKE_SYSTEM_PROCESSOR, because src/core/isa.c asks it too.
check_symbol_exists(__x86_64__ stddef.h LINNET_X86_64)
check_symbol_exists(__aarch64__ stddef.h LINNET_AARCH64)

# Not taken by itself: our own product gives the same bits for any number of threads, needs no other
# library, and is faster than the reference BLAS that many machines have.
set(linnet_cblas)
if(LINNET_CBLAS)
    find_path(CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas)
    find_library(CBLAS_LIBRARY NAMES openblas cblas blas)
    if(NOT CBLAS_INCLUDE_DIR OR NOT CBLAS_LIBRARY)
        message(FATAL_ERROR "LINNET_CBLAS is on, and no cblas.h with its library was found; install "
                            "libopenblas-dev, or leave it off")
    endif()
    set(linnet_cblas ${CBLAS_LIBRARY})
    add_compile_definitions(LNT_CBLAS=1)
    include_directories(SYSTEM ${CBLAS_INCLUDE_DIR})
endif()

# Of the model library alone, which without it refuses what gzip has packed.
set(linnet_zlib)
if(LINNET_MODEL)
    find_package(ZLIB)
    if(ZLIB_FOUND)
        set(linnet_zlib $<BUILD_INTERFACE:${ZLIB_LIBRARIES}> $<INSTALL_INTERFACE:z>)
        set(linnet_zlib_flag -lz)
        set(linnet_zlib_definition LNT_ZLIB=1)
        include_directories(SYSTEM ${ZLIB_INCLUDE_DIRS})
    endif()
endif()

# Of the model library too: the regular expressions and the Unicode of other models' tokenizers, which without them are
# refused.  Binary properties (\p{White_Space}) came with PCRE2 10.40.
set(linnet_text_libraries)
set(linnet_text_flags)
set(linnet_text_definitions)
if(LINNET_MODEL)
    find_path(PCRE2_INCLUDE_DIR pcre2.h)
    find_library(PCRE2_LIBRARY pcre2-8)
    if(PCRE2_INCLUDE_DIR AND PCRE2_LIBRARY)
        file(STRINGS ${PCRE2_INCLUDE_DIR}/pcre2.h pcre2_lines REGEX "^#define PCRE2_(MAJOR|MINOR) ")
        string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*" "\\1.\\2" pcre2_version "${pcre2_lines}")
        if(pcre2_version VERSION_GREATER_EQUAL 10.40)
            list(APPEND linnet_text_libraries $<BUILD_INTERFACE:${PCRE2_LIBRARY}> $<INSTALL_INTERFACE:pcre2-8>)
            string(APPEND linnet_text_flags " -lpcre2-8")
            list(APPEND linnet_text_definitions LNT_PCRE2=1)
            include_directories(SYSTEM ${PCRE2_INCLUDE_DIR})
        endif()
    endif()
    find_path(UTF8PROC_INCLUDE_DIR utf8proc.h)
    find_library(UTF8PROC_LIBRARY utf8proc)
    if(UTF8PROC_INCLUDE_DIR AND UTF8PROC_LIBRARY)
        list(APPEND linnet_text_libraries $<BUILD_INTERFACE:${UTF8PROC_LIBRARY}> $<INSTALL_INTERFACE:utf8proc>)
        string(APPEND linnet_text_flags " -lutf8proc")
        list(APPEND linnet_text_definitions LNT_UTF8PROC=1)
        include_directories(SYSTEM ${UTF8PROC_INCLUDE_DIR})
    endif()
endif()

# And of the model library: the images that other models read, which without them are refused.
set(linnet_image_libraries)
set(linnet_image_flags)
set(linnet_image_definitions)
if(LINNET_MODEL)
    find_path(PNG_INCLUDE_DIR png.h)
    find_library(PNG_LIBRARY NAMES png png16)
    if(PNG_INCLUDE_DIR AND PNG_LIBRARY)
        list(APPEND linnet_image_libraries $<BUILD_INTERFACE:${PNG_LIBRARY}> $<INSTALL_INTERFACE:png>)
        string(APPEND linnet_image_flags " -lpng")
        list(APPEND linnet_image_definitions LNT_PNG=1)
        include_directories(SYSTEM ${PNG_INCLUDE_DIR})
    endif()
    find_path(JPEG_INCLUDE_DIR jpeglib.h)
    find_library(JPEG_LIBRARY jpeg)
    if(JPEG_INCLUDE_DIR AND JPEG_LIBRARY)
        # Reading from memory came with libjpeg 8 and libjpeg-turbo.
        set(CMAKE_REQUIRED_INCLUDES ${JPEG_INCLUDE_DIR})
        set(CMAKE_REQUIRED_LIBRARIES ${JPEG_LIBRARY})
        check_symbol_exists(jpeg_mem_src "stdio.h;jpeglib.h" LINNET_HAVE_JPEG_MEM_SRC)
        unset(CMAKE_REQUIRED_INCLUDES)
        unset(CMAKE_REQUIRED_LIBRARIES)
    endif()
    if(LINNET_HAVE_JPEG_MEM_SRC)
        list(APPEND linnet_image_libraries $<BUILD_INTERFACE:${JPEG_LIBRARY}> $<INSTALL_INTERFACE:jpeg>)
        string(APPEND linnet_image_flags " -ljpeg")
        list(APPEND linnet_image_definitions LNT_JPEG=1)
        include_directories(SYSTEM ${JPEG_INCLUDE_DIR})
    endif()
endif()
