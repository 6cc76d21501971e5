# find_package(linnet) gives linnet::linnet (shared) and linnet::static.
include(${CMAKE_CURRENT_LIST_DIR}/linnet-targets.cmake)
