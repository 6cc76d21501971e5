# ctest: labels unit, property (cmocka programs), cli (the tool), lint (the tree and the library),
# canary (a sanitizer build reports what it must).
#
# Under LINNET_ISA=<name> the unit and property tests run on that instruction set; `linnet_isas`
# prints those this machine has.  LINNET_TEST_BUDGET=small|full says how many random cases to try.

find_path(CMOCKA_INCLUDE_DIR cmocka.h)
find_library(CMOCKA_LIBRARY cmocka)
if(NOT CMOCKA_INCLUDE_DIR OR NOT CMOCKA_LIBRARY)
    message(FATAL_ERROR "LINNET_TESTS is on, and cmocka (the package libcmocka-dev) is not there")
endif()

# Whether a source is of liblinnet-model: by what it includes.
function(uses_model source answer)
    file(STRINGS ${source} includes REGEX "^#include .*(models\\.h|nn/|model/|task/|train/|linnet/model)")
    string(COMPARE NOTEQUAL "${includes}" "" uses)
    set(${answer} ${uses} PARENT_SCOPE)
endfunction()

set(leaks)
if(LINNET_SANITIZE MATCHES "address")
    add_library(linnet_leaks OBJECT tests/support/leaks.c)
    target_compile_options(linnet_leaks PRIVATE -fopenmp ${linnet_warnings})
    set(leaks $<TARGET_OBJECTS:linnet_leaks>)
endif()

file(GLOB support_sources CONFIGURE_DEPENDS tests/support/*.c)
list(FILTER support_sources EXCLUDE REGEX "/leaks\\.c$")
foreach(source ${support_sources})
    uses_model(${source} uses)
    if(uses)
        list(REMOVE_ITEM support_sources ${source})
        list(APPEND support_model_sources ${source})
    endif()
endforeach()
add_library(linnet_support STATIC ${support_sources})
target_compile_options(linnet_support PRIVATE -fopenmp ${linnet_warnings})
target_include_directories(linnet_support PUBLIC src tests/support tests ${CMOCKA_INCLUDE_DIR})
target_link_libraries(linnet_support PUBLIC linnet_static)
if(LINNET_MODEL)
    # Gradients of layers are checked in double.
    add_library(linnet_layers_f64 STATIC ${sources_layer})
    target_compile_definitions(linnet_layers_f64 PRIVATE LNT_DOUBLE=1)
    add_library(linnet_support_model STATIC ${support_model_sources})
    foreach(library linnet_layers_f64 linnet_support_model)
        target_include_directories(${library} PRIVATE include src)
        target_compile_options(${library} PRIVATE -fopenmp ${linnet_warnings})
        target_link_libraries(${library} PUBLIC linnet_model_static)
    endforeach()
    # The kernels of tiles, on any CPU.
    add_library(linnet_tiles_emulated STATIC src/cpu/tiles/body/product.c)
    target_compile_definitions(linnet_tiles_emulated PRIVATE LNT_ISA=emulated LNT_EMULATED)
    target_include_directories(linnet_tiles_emulated PRIVATE include src)
    target_compile_options(linnet_tiles_emulated PRIVATE -O2 ${linnet_warnings})
    target_link_libraries(linnet_support_model PUBLIC linnet_layers_f64 linnet_support linnet_tiles_emulated)
    target_compile_definitions(linnet_support_model PUBLIC ${linnet_zlib_definition} ${linnet_text_definitions}
                               ${linnet_image_definitions})
endif()

# Long ones start first, so that none is left to run alone on one core at the end.
set(long_tests cli/test_study cli/test_bench cli/test_train cli/test_generate property/test_forward
               property/test_gradient property/test_training property/test_hybrid property/test_stream
               property/test_threads property/test_lanes property/test_device_on_the_fake_plugin
               property/test_device_gradient_on_the_fake_plugin
               property/test_device_gradient_shapes_on_the_fake_plugin)
macro(set_cost test)
    if(${test} IN_LIST long_tests)
        set_tests_properties(${test} PROPERTIES COST 1)
    endif()
endmacro()

# Threads wait for each other as briefly as in the tool (src/cli/spin_wait.c): tests run side by side, and one
# that spins keeps the others from the work it waits for.
set(brief_waits "GOMP_SPINCOUNT=1000")

function(add_test_program label source)
    get_filename_component(name ${source} NAME_WE)
    set(target ${label}_${name})
    set(support linnet_support)
    uses_model(${source} uses)
    if(uses AND LINNET_MODEL)
        set(support linnet_support_model)
    elseif(uses)
        return()
    endif()
    add_executable(${target} ${source} ${leaks})
    target_compile_options(${target} PRIVATE -fopenmp ${linnet_warnings})
    target_link_libraries(${target} PRIVATE ${support} ${CMOCKA_LIBRARY})
    # test_kernels.c may have parts in kernels/, which are compiled once per real type.
    string(REGEX REPLACE "test_(.*)\\.c$" "\\1" parts ${source})
    file(GLOB part_sources CONFIGURE_DEPENDS ${parts}/*.c)
    if(part_sources)
        foreach(real f32 f64)
            add_library(${target}_${real} OBJECT ${part_sources})
            target_compile_definitions(${target}_${real} PRIVATE
                                       $<$<STREQUAL:${real},f64>:LNT_DOUBLE=1>)
            target_compile_options(${target}_${real} PRIVATE -fopenmp ${linnet_warnings})
            target_link_libraries(${target}_${real} PRIVATE linnet_support)
            target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${real}>)
        endforeach()
    endif()
    # A file of its own folder that a test leaves behind cannot meet that of another test.
    set(scratch ${PROJECT_BINARY_DIR}/scratch/${target})
    file(MAKE_DIRECTORY ${scratch})
    add_test(NAME ${label}/${name} COMMAND ${target} WORKING_DIRECTORY ${scratch})
    set_tests_properties(${label}/${name} PROPERTIES LABELS ${label} TIMEOUT 900 ENVIRONMENT ${brief_waits})
    set_cost(${label}/${name})
endfunction()

foreach(label unit property)
    file(GLOB sources CONFIGURE_DEPENDS tests/${label}/test_*.c)
    foreach(source ${sources})
        add_test_program(${label} ${source})
    endforeach()
endforeach()

# Plug-ins for a machine without a GPU: one that computes on the CPU, and four that must be refused.
add_library(linnet_plugin_fake MODULE tests/plugin/fake.c)
target_link_libraries(linnet_plugin_fake PRIVATE linnet_static)
foreach(fault REFUSES OTHER GREW NONE)
    add_library(linnet_plugin_${fault} MODULE tests/plugin/wrong.c)
    target_compile_definitions(linnet_plugin_${fault} PRIVATE ${fault})
    target_include_directories(linnet_plugin_${fault} PRIVATE include)
endforeach()
foreach(kind fake REFUSES OTHER GREW NONE)
    target_include_directories(linnet_plugin_${kind} PRIVATE src)
    target_compile_options(linnet_plugin_${kind} PRIVATE -fopenmp ${linnet_warnings})
    string(TOUPPER ${kind} upper)
    target_compile_definitions(unit_test_plugin PRIVATE
                               PLUGIN_${upper}="$<TARGET_FILE:linnet_plugin_${kind}>")
    add_dependencies(unit_test_plugin linnet_plugin_${kind})
endforeach()
# The same tests twice: on a GPU, skipped where there is none, and on the fake one, whose
# numbers are the CPU's and need few cases.
foreach(name test_device test_device_state test_device_gradient test_device_shapes test_device_gradient_shapes)
    set(scratch ${PROJECT_BINARY_DIR}/scratch/property_${name}_fake)
    file(MAKE_DIRECTORY ${scratch})
    add_test(NAME property/${name}_on_the_fake_plugin COMMAND property_${name}
             WORKING_DIRECTORY ${scratch})
    set_tests_properties(property/${name}_on_the_fake_plugin PROPERTIES LABELS property TIMEOUT 900
        ENVIRONMENT "${brief_waits};LINNET_CUDA_PLUGIN=$<TARGET_FILE:linnet_plugin_fake>;LINNET_TEST_BUDGET=small")
    set_cost(property/${name}_on_the_fake_plugin)
endforeach()

if(LINNET_MODEL) # and the same test where there is no zlib
    add_executable(unit_test_gzip_without_zlib tests/unit/test_gzip.c src/task/content.c)
    target_link_libraries(unit_test_gzip_without_zlib PRIVATE linnet_support ${CMOCKA_LIBRARY})
    add_test(NAME unit/test_gzip_without_zlib COMMAND unit_test_gzip_without_zlib
             WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/scratch)
    set_tests_properties(unit/test_gzip_without_zlib PROPERTIES LABELS unit)
    # as for PCRE2 and utf8proc
    set(room src/model/tokenizer)
    add_executable(unit_test_words_without_tables tests/unit/test_words.c ${room}/buffer.c ${room}/regex.c ${room}/unicode.c)
    target_link_libraries(unit_test_words_without_tables PRIVATE linnet_support ${CMOCKA_LIBRARY})
    add_test(NAME unit/test_words_without_tables COMMAND unit_test_words_without_tables
             WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/scratch)
    set_tests_properties(unit/test_words_without_tables PROPERTIES LABELS unit)
    # and for libpng and libjpeg
    set(room src/model/image)
    add_executable(unit_test_image_without_libraries tests/unit/test_image.c tests/support/image_file.c ${room}/image.c
                   ${room}/png.c ${room}/jpeg.c ${room}/upright.c ${room}/resize.c)
    target_link_libraries(unit_test_image_without_libraries PRIVATE linnet_support ${CMOCKA_LIBRARY})
    add_test(NAME unit/test_image_without_libraries COMMAND unit_test_image_without_libraries
             WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/scratch)
    set_tests_properties(unit/test_image_without_libraries PROPERTIES LABELS unit)
endif()

if(linnet_cuda_built)
    find_package(CUDAToolkit REQUIRED)
    add_test_program(property tests/cuda/test_device_streams.c)
    target_link_libraries(property_test_device_streams PRIVATE CUDA::cudart_static)
endif()

add_executable(linnet_isas tools/isas.c)
target_link_libraries(linnet_isas PRIVATE linnet_static)

if(LINNET_SANITIZE)
    # name, source, a definition that plants the fault, what the report must say
    function(add_canary name source definition report)
        add_executable(canary_${name} tests/canary/${source} ${leaks})
        target_compile_definitions(canary_${name} PRIVATE ${definition})
        target_compile_options(canary_${name} PRIVATE -fopenmp)
        target_link_options(canary_${name} PRIVATE -fopenmp)
        add_test(NAME canary/${name} COMMAND canary_${name})
        set_tests_properties(canary/${name} PROPERTIES LABELS canary
                             PASS_REGULAR_EXPRESSION "${report}")
    endfunction()
    if(LINNET_SANITIZE MATCHES "thread")
        add_canary(race_is_reported race.c RACE "data race")
        add_canary(clean_loop_is_quiet race.c CLEAN "^sum 999000\n$")
    endif()
    if(LINNET_SANITIZE MATCHES "address")
        add_canary(overflow_is_reported fault.c READ_PAST_END "heap-buffer-overflow")
        add_canary(leak_is_reported fault.c LEAK "detected memory leaks")
    endif()
    if(LINNET_SANITIZE MATCHES "undefined")
        add_canary(undefined_is_reported fault.c SIGNED_OVERFLOW "signed integer overflow")
    endif()
endif()

# What follows looks at the tool, the library and the tree as this machine sees them.
if(CMAKE_CROSSCOMPILING)
    return()
endif()

enable_language(CXX)
file(GLOB sources CONFIGURE_DEPENDS tests/unit/test_*.cc)
foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(unit_${name} ${source} ${leaks})
    target_compile_features(unit_${name} PRIVATE cxx_std_17)
    target_compile_options(unit_${name} PRIVATE ${linnet_warnings})
    target_link_libraries(unit_${name} PRIVATE linnet_static)
    add_test(NAME unit/${name} COMMAND unit_${name})
    set_tests_properties(unit/${name} PROPERTIES LABELS unit)
endforeach()
# What the plug-in decides without a GPU.
target_sources(unit_test_cuda_forms PRIVATE src/cuda/host/choose.cc src/cuda/common/monomials.cc
               src/cuda/orbits/orbits_basis.cc src/cuda/pairs/pairs_basis.cc src/cuda/tiles/tiles_basis.cc)
target_include_directories(unit_test_cuda_forms PRIVATE src)
target_compile_options(unit_test_cuda_forms PRIVATE -Wno-sign-conversion) # the plug-in is built without it

set(scripts) # of the tool
if(LINNET_MODEL)
    file(GLOB scripts CONFIGURE_DEPENDS tests/cli/test_*.sh)
endif()
foreach(script ${scripts})
    get_filename_component(name ${script} NAME_WE)
    set(scratch ${PROJECT_BINARY_DIR}/scratch/cli_${name})
    file(MAKE_DIRECTORY ${scratch})
    add_test(NAME cli/${name} COMMAND bash ${script} WORKING_DIRECTORY ${scratch})
    # A leak check takes seconds at each exit on some CPUs, and a script runs the tool many times;
    # the unit and property tests do look for leaks.
    set_tests_properties(cli/${name} PROPERTIES LABELS cli TIMEOUT 300
        ENVIRONMENT "LINNET=$<TARGET_FILE:linnet_tool>;LINNET_FAKE_PLUGIN=$<TARGET_FILE:linnet_plugin_fake>;TMPDIR=${scratch};ASAN_OPTIONS=detect_leaks=0")
    set_cost(cli/${name})
endforeach()

if(LINNET_MODEL)
    add_test(NAME lint/exports COMMAND ${PROJECT_SOURCE_DIR}/tools/check-exports.sh
             $<TARGET_FILE:linnet> ${PROJECT_SOURCE_DIR}/include/linnet.h
             $<TARGET_FILE:linnet_model> ${PROJECT_SOURCE_DIR}/include/linnet/model.h)
    set_tests_properties(lint/exports PROPERTIES LABELS lint)
endif()
add_test(NAME lint/header COMMAND ${PROJECT_SOURCE_DIR}/tools/check-header.sh
         ${PROJECT_SOURCE_DIR}/include/linnet.h ${PROJECT_SOURCE_DIR}/include/linnet/model.h)
foreach(check includes tree)
    add_test(NAME lint/${check} COMMAND ${PROJECT_SOURCE_DIR}/tools/check-${check}.sh
             ${PROJECT_SOURCE_DIR})
endforeach()
foreach(check links prose)
    add_test(NAME lint/${check} COMMAND ${PROJECT_SOURCE_DIR}/tools/check-${check}.py ${PROJECT_SOURCE_DIR})
endforeach()
add_test(NAME lint/lints_catch_what_they_are_for
         COMMAND bash ${PROJECT_SOURCE_DIR}/tests/lint/test_lints.sh)
set_tests_properties(lint/header lint/includes lint/tree lint/links lint/prose
                     lint/lints_catch_what_they_are_for PROPERTIES LABELS lint)
add_test(NAME lint/cuda-names COMMAND ${PROJECT_SOURCE_DIR}/tools/check-cuda-names.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(lint/cuda-names PROPERTIES LABELS lint)

# A program compiled with the headers of the first release of this soname, and the layouts of both.
set(frozen ${PROJECT_SOURCE_DIR}/tests/abi/${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
if(EXISTS ${frozen}/linnet.h AND TARGET linnet_model)
    add_executable(unit_abi tests/abi/caller.c)
    target_include_directories(unit_abi BEFORE PRIVATE ${frozen})
    target_compile_options(unit_abi PRIVATE ${linnet_warnings})
    target_link_libraries(unit_abi PRIVATE linnet linnet_model)
    add_test(NAME unit/abi COMMAND unit_abi)
    set_tests_properties(unit/abi PROPERTIES LABELS unit)
endif()
add_test(NAME lint/abi COMMAND ${PROJECT_SOURCE_DIR}/tools/check-abi.py ${PROJECT_SOURCE_DIR}/include
         ${frozen})
set_tests_properties(lint/abi PROPERTIES LABELS lint SKIP_RETURN_CODE 77)
