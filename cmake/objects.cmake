# The objects of the libraries, in linnet_objects and linnet_model_objects.  What a source is compiled for goes by its folder:
#
#   src/cpu/body/, src/cpu/<isa>/     once per instruction set and real type
#   src/cpu/weight/body/              once per instruction set of weights, which are more; of the model library
#   src/cpu/tiles/body/               once, for AMX; of the model library
#   real/ in a room of attention      once per real type
#   real/ elsewhere (layers)          once in float; linnet_layers_f64, which the tests link, has them in double
#   everything else                   once
#
# A source that is compiled more than once puts LNT_ISA and the real type into the names it defines.
# LNT_DOUBLE=1 makes the real type double.

set(folders_attention core io cpu device attention attention/* plan)
set(folders_model cpu/weight cpu/tiles nn model model/template model/tokenizer model/image model/import task train)

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
set(flags_avx2 -DLNT_VEC_BYTES=32 -mavx2 -mfma -mf16c)
set(isas_weight ${isas}) # those alone that only products of whole numbers gain by come here
if(LINNET_AARCH64)
    list(APPEND isas_weight dotprod)
elseif(LINNET_X86_64)
    list(APPEND isas_weight vnni)
endif()

set(flags_avx512 -DLNT_VEC_BYTES=64 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma -mf16c
                 -mprefer-vector-width=512)
set(flags_vnni ${flags_avx512} -mavx512vnni)
set(flags_amx ${flags_vnni} -mavx512bf16 -mamx-tile -mamx-bf16)
set(flags_dotprod ${flags_neon} -march=armv8.2-a+dotprod)

set(linnet_objects)
set(linnet_model_objects)

function(add_objects list name)
    add_library(${name} OBJECT ${ARGN})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include
                                               ${PROJECT_SOURCE_DIR}/src)
    # What is exported is called and inlined within its library as if it were not.
    target_compile_options(${name} PRIVATE -fopenmp -fno-semantic-interposition ${linnet_warnings})
    list(APPEND ${list} $<TARGET_OBJECTS:${name}>)
    set(${list} ${${list}} PARENT_SCOPE)
endfunction()

foreach(half attention model)
    set(sources_${half})
    foreach(folder ${folders_${half}})
        file(GLOB found CONFIGURE_DEPENDS src/${folder}/*.c)
        list(APPEND sources_${half} ${found})
    endforeach()
    list(FILTER sources_${half} EXCLUDE REGEX "/real/[^/]*$") # attention/* takes in attention/real
endforeach()
file(GLOB sources_algorithm CONFIGURE_DEPENDS src/attention/real/*.c src/attention/*/real/*.c)
file(GLOB sources_layer CONFIGURE_DEPENDS src/nn/real/*.c src/model/real/*.c)
add_objects(linnet_objects linnet_once ${sources_attention})
if(LINNET_MODEL)
    add_objects(linnet_model_objects linnet_model_once ${sources_model})
    target_compile_definitions(linnet_model_once PRIVATE ${linnet_zlib_definition} ${linnet_text_definitions}
                               ${linnet_image_definitions})
    add_objects(linnet_model_objects linnet_layers ${sources_layer})
endif()

file(GLOB body_sources CONFIGURE_DEPENDS src/cpu/body/*.c)
foreach(real f32 f64)
    if(real STREQUAL "f64")
        set(define_real LNT_DOUBLE=1)
    else()
        set(define_real)
    endif()

    add_objects(linnet_objects linnet_algorithms_${real} ${sources_algorithm})
    target_compile_definitions(linnet_algorithms_${real} PRIVATE ${define_real})

    foreach(isa ${isas})
        file(GLOB override_sources CONFIGURE_DEPENDS src/cpu/${isa}/*.c)
        set(name linnet_kernels_${isa}_${real})
        add_objects(linnet_objects ${name} ${body_sources} ${override_sources})
        target_compile_definitions(${name} PRIVATE LNT_ISA=${isa} ${define_real})
        # -O3 whatever the build type: the tests spend their time here.  gcc contracts a*b+c to an FMA
        # under -std=c11 only when told.  Link-time optimisation would inline code of one
        # instruction set into functions that run on a CPU without it.
        target_compile_options(${name} PRIVATE -O3 -ffp-contract=fast -fno-lto ${flags_${isa}})
        if(LINNET_FUZZ) # no file comes this far; compiled in a tenth of the time
            target_compile_options(${name} PRIVATE -O0 -fno-sanitize=all)
        endif()
    endforeach()
endforeach()

if(LINNET_MODEL)
    file(GLOB weight_sources CONFIGURE_DEPENDS src/cpu/weight/body/*.c)
    foreach(isa ${isas_weight})
        set(name linnet_weight_${isa})
        add_objects(linnet_model_objects ${name} ${weight_sources})
        target_compile_definitions(${name} PRIVATE LNT_ISA=${isa})
        target_compile_options(${name} PRIVATE -O3 -ffp-contract=fast -fno-lto ${flags_${isa}})
        if(LINNET_FUZZ) # clang takes many minutes to sanitize what is unrolled
            target_compile_options(${name} PRIVATE -O0 -fno-sanitize=all)
        elseif(LINNET_SANITIZE)
            target_compile_options(${name} PRIVATE -O1)
        endif()
    endforeach()
endif()

if(LINNET_MODEL AND LINNET_X86_64)
    file(GLOB tile_sources CONFIGURE_DEPENDS src/cpu/tiles/body/*.c)
    add_objects(linnet_model_objects linnet_tiles ${tile_sources})
    target_compile_definitions(linnet_tiles PRIVATE LNT_ISA=amx)
    if(LINNET_EMULATE_TILES)
        target_compile_definitions(linnet_tiles PRIVATE LNT_EMULATED)
        target_compile_definitions(linnet_once PRIVATE LNT_EMULATE_TILES)
        target_compile_definitions(linnet_model_once PRIVATE LNT_EMULATE_TILES)
        target_compile_options(linnet_tiles PRIVATE -O3 -fno-lto ${flags_avx512})
    else()
        target_compile_options(linnet_tiles PRIVATE -O3 -fno-lto ${flags_amx})
    endif()
endif()
