#include "collector/trace/xplane/device_names.h"

#include <gmock/gmock.h>

#include <utility>
#include <vector>

namespace strobe::xplane {
namespace {

using enum MemoryWork;

TEST(DeviceNames, CopiesAndFillsOfAllVendorsAreKnown) {
  const std::vector<std::pair<std::string_view, MemoryWork>> expected = {
      // CUPTI's, as XLA, Kineto and nsys name them.
      {"MemcpyH2D", kHostToDevice},
      {"MemcpyD2H", kDeviceToHost},
      {"MemcpyP2P", kPeerToPeer},
      {"MemcpyOther", kOtherCopy},
      {"Memset", kFill},
      {"Memcpy HtoD (Pinned -> Device)", kHostToDevice},
      {"Memcpy DtoH (Device -> Pageable)", kDeviceToHost},
      {"Memcpy DtoD (Device -> Device)", kDeviceToDevice},
      {"Memcpy PtoP (Device -> Device)", kPeerToPeer},
      {"Memset (Device)", kFill},
      {"[CUDA memcpy HtoD]", kHostToDevice},
      {"[CUDA memcpy Device-to-Host]", kDeviceToHost},
      {"[CUDA memset]", kFill},
      {"[CUDA Unified Memory memcpy DtoH]", kDeviceToHost},
      {"memcpy32_post", kOtherCopy},
      // ROCm's: roctracer, rocprofiler, rocclr.
      {"CopyHostToDevice", kHostToDevice},
      {"CopyDeviceToHost", kDeviceToHost},
      {"CopyDeviceToDevice", kDeviceToDevice},
      {"CopyHostToDevice2D", kHostToDevice},
      {"CopyDeviceToHost2D", kDeviceToHost},
      {"CopyDeviceToDevice2D", kDeviceToDevice},
      {"FillBuffer", kFill},
      {"SvmMemcpy", kOtherCopy},
      {"MEMORY_COPY_HOST_TO_DEVICE", kHostToDevice},
      {"MEMORY_COPY_DEVICE_TO_HOST", kDeviceToHost},
      {"MEMORY_COPY_DEVICE_TO_DEVICE", kDeviceToDevice},
      {"MEMORY_COPY_HOST_TO_HOST", kOtherCopy},
      {"MEMORY_COPY_NONE", kOtherCopy},
      {"HostToDeviceCopy", kHostToDevice},
      {"__amd_rocclr_copyBuffer", kDeviceToDevice},
      {"__amd_rocclr_copyBuffer.kd", kDeviceToDevice},
      {"__amd_rocclr_copyBufferAligned", kDeviceToDevice},
      {"__amd_rocclr_copyBufferRect.kd", kDeviceToDevice},
      {"__amd_rocclr_copyBufferRectAligned", kDeviceToDevice},
      {"__amd_rocclr_copyImageToBuffer", kOtherCopy},
      {"__amd_rocclr_fillBuffer", kFill},
      {"__amd_rocclr_fillBufferAligned.kd", kFill},
      {"__amd_rocclr_fillBufferAligned2D", kFill},
      {"FillBuffer.kd", kFill},
      // Intel's.
      {"zeCommandListAppendMemoryCopy", kOtherCopy},
      {"zeCommandListAppendMemoryCopy(M2D)", kHostToDevice},
      {"zeCommandListAppendMemoryCopyRegion(D2M)", kDeviceToHost},
      {"zeCommandListAppendMemoryFill", kFill},
      {"zeCommandListAppendImageCopyFromMemory", kOtherCopy},
      {"Memcpy M2D (Memory -> Device)", kHostToDevice},
      {"Memcpy D2M (Device -> Memory)", kDeviceToHost},
      {"Memcpy S2D (Shared -> Device)", kOtherCopy},
      {"Memset (0 -> Device)", kFill},
      // Huawei's and Meta's.
      {"MEMCPY_ASYNC", kOtherCopy},
      {"SDMA_SQE", kOtherCopy},
      {"dma_request", kOtherCopy},
      {"DEVICE_TO_HOST", kDeviceToHost},
      {"H2D", kHostToDevice}};
  for (const auto& [name, work] : expected) EXPECT_EQ(MemoryWorkOf(name), work) << name;
}

TEST(DeviceNames, KernelsThatCopyComputeAndSoDoNamesThatOnlyLookAlike) {
  for (const std::string_view name :
       {"void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(...)>",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<...>",
        "CatArrayBatchedCopy",
        "triton_poi_fused_copy_0",
        "triton_poi_fused__to_copy_add_1",
        "loop_copy_fusion",
        "copy.7",
        "input_copy_fusion",
        "wrapped_copy",
        "copy_atom",
        "memcpy_kernel",
        "memset_kernel",
        "fill_kernel",
        "_fill_padded_rows_kernel",
        "void cub::DeviceBatchMemcpy<...>()",
        "_Z11copy_kernelPfS_i",
        "__amd_rocclr_streamOpsWrite",
        "zeCommandListAppendLaunchKernel",
        "stop",
        "htod_gemm",
        "host_to_device_gemm",
        "Cijk_Ailk_Bljk_gemm",
        "dmabuf_gemm",
        "copy",
        "transpose",
        "",
        "d2d_attention",
        "reshape_and_cache"})
    EXPECT_EQ(MemoryWorkOf(name), kNone) << name;
}

TEST(DeviceNames, AStreamMayHoldNothingElse) {
  for (const std::string_view line : {"Stream #8(MemcpyOther)", "Stream #3(MemcpyH2D,Memset)",
                                      "Stream #3(MemcpyH2D,MemoryAlloc) [trainer 1]"})
    EXPECT_TRUE(HoldsOnlyMemoryWork(line)) << line;
  for (const std::string_view line :
       {"Stream #8(Compute,MemcpyOther)", "Stream #8", "Stream #8()", "Stream #8(MemoryAlloc)",
        "XLA Ops", "(MemcpyH2D)", "Stream #8(Memcpy"})
    EXPECT_FALSE(HoldsOnlyMemoryWork(line)) << line;
}

TEST(DeviceNames, CategoriesTellCopiesAndFills) {
  EXPECT_EQ(MemoryWorkOfCategory("gpu_memcpy"), kOtherCopy);
  EXPECT_EQ(MemoryWorkOfCategory("MLU_MEMSET"), kFill);
  for (const std::string_view category : {"kernel", "cuda_runtime", "", "memcpy_api"})
    EXPECT_EQ(MemoryWorkOfCategory(category), kNone) << category;
}

}  // namespace
}  // namespace strobe::xplane
