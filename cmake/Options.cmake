# Compiler options of all targets. `strobe_options` is for our own code; generated code gets only the
# sanitizer flags.
find_program(CCACHE ccache)
if(CCACHE)
  # Hashes paths relative to the source directory, so that clones in other places share the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD AND NOT CMAKE_CROSSCOMPILING) # Debian's cross compilers do not find it.
  add_link_options(-fuse-ld=mold)
endif()
# Most of the object_store bridge is not called, nor is much of the libraries that the sidecar shares with larger programs.
add_link_options(-Wl,--gc-sections)

# For the libraries of a folder and of those below it: the linker leaves out each function that a program does not call.
macro(strobe_sections)
  add_compile_options(-ffunction-sections -fdata-sections)
endmacro()

# For libraries whose work is rare or waits for others. The sidecar carries them beside every trainer.
function(strobe_small)
  foreach(library ${ARGN})
    target_compile_options(${library} PRIVATE $<$<CONFIG:Release>:-Os>)
  endforeach()
endfunction()

if(STROBE_SANITIZE)
  add_compile_options(-fsanitize=${STROBE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${STROBE_SANITIZE})
  add_compile_definitions(STROBE_SANITIZED)
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    # Its check of dynamic types does not know libstdc++'s error categories.
    add_compile_options(-fno-sanitize=vptr)
  endif()
  if(STROBE_SANITIZE MATCHES thread)
    # ThreadSanitizer does not support fences; this makes asio work without them.
    add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()

add_library(strobe_options INTERFACE)
target_include_directories(strobe_options INTERFACE ${PROJECT_SOURCE_DIR})
# clang, which compiles the sanitizers' builds, warns of other things; clang-tidy checks those that
# were chosen.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(strobe_options INTERFACE
    -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
    # g++ 12 warns about correct std::string concatenation (GCC bug 105651).
    -Wno-restrict)
endif()
find_package(Threads REQUIRED)
target_link_libraries(strobe_options INTERFACE Threads::Threads)
