# What is installed beside the programs, and the packages of cpack (script/package): one for each component.

# --- what cmake --install puts in place as well
set(SHARE ${CMAKE_INSTALL_DATADIR})
set(ZSH ${SHARE}/zsh/site-functions)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
  set(ZSH ${SHARE}/zsh/vendor-completions)
endif()
if(NOT CMAKE_CROSSCOMPILING)
  install(FILES ${CMAKE_BINARY_DIR}/tenon.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tenon)
  install(FILES ${CMAKE_BINARY_DIR}/tenon.bash RENAME tenon DESTINATION ${SHARE}/bash-completion/completions
          COMPONENT tenon)
  install(FILES ${CMAKE_BINARY_DIR}/_tenon DESTINATION ${ZSH} COMPONENT tenon)
  install(FILES ${CMAKE_BINARY_DIR}/tenon.fish DESTINATION ${SHARE}/fish/vendor_completions.d COMPONENT tenon)
endif()
file(GLOB UNITS CONFIGURE_DEPENDS packaging/systemd/*.service)
install(FILES ${UNITS}
        DESTINATION lib/systemd/system COMPONENT tenon)

# find_package(tenon), then target_link_libraries(x tenon::tenon)
include(CMakePackageConfigHelpers)
set(CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/tenon)
configure_package_config_file(cmake/tenon-config.cmake.in tenon-config.cmake INSTALL_DESTINATION ${CONFIG_DIR})
write_basic_package_version_file(tenon-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tenon-config.cmake ${CMAKE_BINARY_DIR}/tenon-config-version.cmake
        DESTINATION ${CONFIG_DIR} COMPONENT libtenon-dev)
install(EXPORT tenon NAMESPACE tenon:: FILE tenon-targets.cmake DESTINATION ${CONFIG_DIR} COMPONENT libtenon-dev)

# --- what only packages have: settings, which an upgrade keeps, and what Debian wants to read
install(FILES packaging/etc/worker.env packaging/etc/cleaner.env packaging/etc/intake.env packaging/etc/ui.env DESTINATION /etc/tenon
        PERMISSIONS OWNER_READ OWNER_WRITE COMPONENT tenon EXCLUDE_FROM_ALL)
install(FILES packaging/etc/handlers.conf DESTINATION /etc/tenon COMPONENT tenon EXCLUDE_FROM_ALL)

set(TENON_REVISION "" CACHE STRING "what the version of the packages ends with")
set(DEBIAN_VERSION ${PROJECT_VERSION})
if(TENON_REVISION)
  set(DEBIAN_VERSION ${PROJECT_VERSION}-${TENON_REVISION})
  set(CPACK_DEBIAN_PACKAGE_RELEASE ${TENON_REVISION})
endif()

# package(NAME SECTION DEPENDS TEXT): the files of the component NAME
set(CPACK_COMPONENTS_ALL)
function(package name section depends text)
  string(TOUPPER ${name} key)
  install(FILES ${CMAKE_BINARY_DIR}/changelog.gz packaging/debian/copyright
          DESTINATION ${SHARE}/doc/${name} COMPONENT ${name} EXCLUDE_FROM_ALL)
  foreach(pair "PACKAGE_NAME:${name}" "PACKAGE_SECTION:${section}" "PACKAGE_DEPENDS:${depends}")
    string(REGEX MATCH "^([A-Z_]*):(.*)$" all "${pair}")
    set(CPACK_DEBIAN_${key}_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}" PARENT_SCOPE)
  endforeach()
  set(CPACK_COMPONENT_${key}_DESCRIPTION "${text}" PARENT_SCOPE)
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${name} PARENT_SCOPE)
endfunction()

execute_process(COMMAND gzip -9nc ${CMAKE_SOURCE_DIR}/packaging/debian/changelog
                OUTPUT_FILE ${CMAKE_BINARY_DIR}/changelog.gz COMMAND_ERROR_IS_FATAL ANY)
package(tenon database "adduser, ca-certificates" "transactional background tasks for PostgreSQL
An application inserts a task in its own transaction; near the commit a worker
is woken through RabbitMQ, runs a program for it, and finishes it.

This package has the program: workers, the cleaner, and the commands of
operators.")
package(libtenon1 libs "" "transactional background tasks for PostgreSQL, library
An application inserts a task in its own transaction; near the commit a worker
is woken through RabbitMQ.

This package has the library with which producers in C enqueue tasks.")
package(libtenon-dev libdevel "libtenon1 (= ${DEBIAN_VERSION}), libpq-dev" "transactional background tasks for PostgreSQL, header
An application inserts a task in its own transaction; near the commit a worker
is woken through RabbitMQ.

This package has what building a producer in C needs.")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "the tenon authors <tenon@lists.tenon.example>")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_TENON_PACKAGE_CONTROL_EXTRA
    "${CMAKE_SOURCE_DIR}/packaging/debian/conffiles;${CMAKE_SOURCE_DIR}/packaging/debian/postinst;${CMAKE_SOURCE_DIR}/packaging/debian/prerm;${CMAKE_SOURCE_DIR}/packaging/debian/postrm")
set(CPACK_DEBIAN_LIBTENON1_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/packaging/debian/triggers)
set(CPACK_STRIP_FILES ON)
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)
include(CPack)
