# What `make install` puts where: the header, both libraries, the tool, linnet.pc, the CMake package.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/linnet)

install(TARGETS linnet linnet_static EXPORT linnet-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(linnet_cuda_built)
    install(TARGETS linnet_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(TARGETS linnet_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES include/linnet.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/linnet DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

install(EXPORT linnet-targets NAMESPACE linnet:: DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/linnet-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES cmake/linnet-config.cmake ${PROJECT_BINARY_DIR}/linnet-config-version.cmake
        DESTINATION ${package_dir})

# Paths relative to linnet.pc itself: `cmake --install --prefix` and a moved tree both stay right.
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})
configure_file(cmake/linnet.pc.in linnet.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/linnet.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
