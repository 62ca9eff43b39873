# Everything from Debian 12; ARCHITECTURE.md says why each is there.
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(cpprestsdk REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost REQUIRED)
find_package(CLI11 REQUIRED)
find_package(GTest REQUIRED)

# CUDA's headers, both generations: tools/cuda_headers. Shared by all presets.
set(STROBE_CUDA ${PROJECT_SOURCE_DIR}/build/cuda)
if(NOT EXISTS ${STROBE_CUDA}/13/include/cupti.h)
  message(FATAL_ERROR "CUPTI's headers are missing; run tools/setup build")
endif()
