# What `make install` puts where: headers, libraries, the tool, *.pc, the CMake package.  Components:
# runtime and development of liblinnet, model-runtime and model-development, tool, cuda.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/linnet)

# Paths relative to the .pc file itself: `cmake --install --prefix` and a moved tree both stay right.
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})

function(install_library name file component) # component: before "runtime" and "development"
    install(TARGETS ${name} ${name}_static EXPORT ${file}-targets
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}runtime
                    NAMELINK_COMPONENT ${component}development
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}development)
    install(EXPORT ${file}-targets NAMESPACE linnet:: DESTINATION ${package_dir}
            COMPONENT ${component}development)
    configure_file(cmake/${file}.pc.in ${file}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${file}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
            COMPONENT ${component}development)
endfunction()

install_library(linnet linnet "")
install(FILES include/linnet.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/linnet-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES cmake/linnet-config.cmake ${PROJECT_BINARY_DIR}/linnet-config-version.cmake
        DESTINATION ${package_dir} COMPONENT development)
if(LINNET_MODEL)
    install_library(linnet_model linnet-model model-)
    install(DIRECTORY include/linnet DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT model-development)
    install(TARGETS linnet_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tool)
endif()
if(linnet_cuda_built)
    install(TARGETS linnet_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cuda)
endif()
