# The objects of the library, in linnet_objects.  What a source is compiled for goes by its folder:
#
#   src/cpu/body/, src/cpu/<isa>/     once per instruction set and real type
#   real/ in a room of attention      once per real type
#   real/ elsewhere (layers)          once in float; linnet_layers_f64, which the tests link, has them in double
#   everything else                   once
#
# A source that is compiled more than once puts LNT_ISA and the real type into the names it defines.
# LNT_DOUBLE=1 makes the real type double.

set(folders_once core io cpu device attention attention/* plan nn model task train)

set(isas scalar)
if(LINNET_AARCH64)
    list(APPEND isas neon)
elseif(LINNET_X86_64)
    list(APPEND isas avx2 avx512)
endif()

# A scalar kernel that the compiler vectorises would not be a reference for the others.
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    set(no_vectors -fno-vectorize -fno-slp-vectorize)
else()
    set(no_vectors -fno-tree-vectorize -fno-tree-slp-vectorize)
endif()
set(flags_scalar -DLNT_VEC_BYTES=0 ${no_vectors})
if(LINNET_SANITIZE) # compiled in a fifth of the time, and few tests run them there
    list(APPEND flags_scalar -O1)
endif()
set(flags_neon -DLNT_VEC_BYTES=16)
set(flags_avx2 -DLNT_VEC_BYTES=32 -mavx2 -mfma)
set(flags_avx512 -DLNT_VEC_BYTES=64 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma
                 -mprefer-vector-width=512)

set(linnet_objects)

function(add_objects name)
    add_library(${name} OBJECT ${ARGN})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include
                                               ${PROJECT_SOURCE_DIR}/src)
    target_compile_options(${name} PRIVATE -fopenmp ${linnet_warnings})
    list(APPEND linnet_objects $<TARGET_OBJECTS:${name}>)
    set(linnet_objects ${linnet_objects} PARENT_SCOPE)
endfunction()

set(sources_once)
foreach(folder ${folders_once})
    file(GLOB found CONFIGURE_DEPENDS src/${folder}/*.c)
    list(APPEND sources_once ${found})
endforeach()
list(FILTER sources_once EXCLUDE REGEX "/real/[^/]*$") # attention/* takes in attention/real
file(GLOB sources_algorithm CONFIGURE_DEPENDS src/attention/real/*.c src/attention/*/real/*.c)
file(GLOB sources_layer CONFIGURE_DEPENDS src/nn/real/*.c src/model/real/*.c)
add_objects(linnet_once ${sources_once})
add_objects(linnet_layers ${sources_layer})

file(GLOB body_sources CONFIGURE_DEPENDS src/cpu/body/*.c)
foreach(real f32 f64)
    if(real STREQUAL "f64")
        set(define_real LNT_DOUBLE=1)
    else()
        set(define_real)
    endif()

    add_objects(linnet_algorithms_${real} ${sources_algorithm})
    target_compile_definitions(linnet_algorithms_${real} PRIVATE ${define_real})

    foreach(isa ${isas})
        file(GLOB override_sources CONFIGURE_DEPENDS src/cpu/${isa}/*.c)
        set(name linnet_kernels_${isa}_${real})
        add_objects(${name} ${body_sources} ${override_sources})
        target_compile_definitions(${name} PRIVATE LNT_ISA=${isa} ${define_real})
        # -O3 whatever the build type: the tests spend their time here.  gcc contracts a*b+c to an FMA
        # under -std=c11 only when told.  Link-time optimisation would inline code of one
        # instruction set into functions that run on a CPU without it.
        target_compile_options(${name} PRIVATE -O3 -ffp-contract=fast -fno-lto ${flags_${isa}})
    endforeach()
endforeach()
