# What every target of ours is compiled with. `strobe_options` is for our code; generated code uses
# only the sanitizer flags.
find_program(CCACHE ccache)
if(CCACHE)
  # Paths count from the source directory, so that a fresh clone finds what another one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

if(STROBE_SANITIZE)
  add_compile_options(-fsanitize=${STROBE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${STROBE_SANITIZE})
  if(STROBE_SANITIZE MATCHES thread)
    # ThreadSanitizer does not know fences; asio has another way.
    add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()

add_library(strobe_options INTERFACE)
target_include_directories(strobe_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(strobe_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
  # A false alarm of g++ 12 on std::string concatenation (GCC bug 105651).
  -Wno-restrict)
find_package(Threads REQUIRED)
target_link_libraries(strobe_options INTERFACE Threads::Threads)
