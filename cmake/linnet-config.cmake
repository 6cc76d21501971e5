# find_package(linnet) gives linnet::linnet (shared) and linnet::static; with COMPONENTS model also
# linnet::model and linnet::model_static, where liblinnet-model is installed.
include(${CMAKE_CURRENT_LIST_DIR}/linnet-targets.cmake)
foreach(component ${linnet_FIND_COMPONENTS})
    include(${CMAKE_CURRENT_LIST_DIR}/linnet-${component}-targets.cmake OPTIONAL
            RESULT_VARIABLE linnet_${component}_FOUND)
    if(linnet_FIND_REQUIRED_${component} AND NOT linnet_${component}_FOUND)
        set(linnet_FOUND FALSE)
        set(linnet_NOT_FOUND_MESSAGE "linnet has no component '${component}' here; there is: model, where "
                                     "liblinnet-model is installed")
    endif()
endforeach()
