#include "collector/trace/digest/classify.h"

#include <gmock/gmock.h>

namespace strobe::digest {
namespace {

WorkKind OfKernel(std::string_view name) { return ClassifyDeviceWork(name, "", false).kind; }
WorkKind OfCategory(std::string_view category) {
  return ClassifyDeviceWork("any.1", category, true).kind;
}

TEST(Classify, KnowsKernelsThatCommunicate) {
  for (const std::string_view name :
       {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "ncclSymDevKernel_AllGather",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>",
        "void nvshmemi_transfer_allgather",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1>",
        "void deep_ep::intranode::dispatch<8, 768, 8192>", "deep_ep::internode_ll::combine"})
    EXPECT_EQ(OfKernel(name), WorkKind::kCommunication) << name;
  for (const std::string_view name :
       {"ampere_sgemm_128x64_tn", "loop_copy_fusion", "void at::native::reduce_kernel<512, 1>"})
    EXPECT_EQ(OfKernel(name), WorkKind::kCompute) << name;
}

TEST(Classify, ArgumentsAreNoPartOfAKernelsName) {
  EXPECT_EQ(WithoutArguments("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
            "ncclDevKernel_AllGather_RING_LL");
  EXPECT_EQ(WithoutArguments("void (anonymous namespace)::multimem_all_reduce_kernel<(int)16>(a*)"),
            "void (anonymous namespace)::multimem_all_reduce_kernel<(int)16>");
  EXPECT_EQ(WithoutArguments("rccl_kernel(a, b) [clone .kd]"), "rccl_kernel");
  EXPECT_EQ(WithoutArguments("%all-reduce.1 = f32[8]{0} all-reduce(f32[8]{0} %x), to_apply=%add"),
            "%all-reduce.1 = f32[8]{0} all-reduce");
  EXPECT_EQ(WithoutArguments("nvshmem<"), "nvshmem<");
  EXPECT_EQ(ClassifyDeviceWork("void (anonymous namespace)::multimem_all_reduce_kernel<4>(a*)", "",
                               /*is_hlo=*/false)
                .collective,
            CollectiveKind::kAllReduce);
}

TEST(Classify, KnowsCopiesOfXlaAndOfPyTorch) {
  for (const std::string_view name : {"MemcpyH2D", "Memcpy DtoH (Device -> Pinned)",
                                      "Memset (Device)", "MemcpyP2P", "[CUDA memcpy HtoD]"})
    EXPECT_EQ(OfKernel(name), WorkKind::kCopy) << name;
}

TEST(Classify, TakesXlasCategoriesBeforeNames) {
  EXPECT_EQ(OfCategory("all-reduce fusion"), WorkKind::kCommunication);
  EXPECT_EQ(OfCategory("collective-permute-start"), WorkKind::kCommunication);
  EXPECT_EQ(OfCategory("send-done"), WorkKind::kCommunication);
  EXPECT_EQ(OfCategory("copy-done"), WorkKind::kCopy);
  EXPECT_EQ(OfCategory("host send"), WorkKind::kCopy);
  EXPECT_EQ(OfCategory("outfeed"), WorkKind::kCopy);
  EXPECT_EQ(OfCategory("infeed"), WorkKind::kInput);
  EXPECT_EQ(OfCategory("convolution fusion"), WorkKind::kCompute);
  EXPECT_TRUE(ClassifyDeviceWork("while.3", "while", true).contains_others);
}

TEST(Classify, ReadsOpcodesFromNamesOfInstructions) {
  const WorkClass start = ClassifyDeviceWork("%all-gather-start.12", "", true);
  EXPECT_EQ(start.kind, WorkKind::kCommunication);
  EXPECT_EQ(start.collective, CollectiveKind::kAllGather);
  EXPECT_EQ(start.phase, WorkClass::kStart);
  EXPECT_EQ(ClassifyDeviceWork("all-reduce-done.2", "all-reduce", true).phase, WorkClass::kDone);
  EXPECT_EQ(ClassifyDeviceWork("dot.2", "", true).kind, WorkKind::kCompute);
  EXPECT_EQ(ClassifyDeviceWork("copy.7", "", true).kind, WorkKind::kCopy);
  // A name of a kernel is not one of an instruction.
  EXPECT_EQ(ClassifyDeviceWork("copy.7", "", false).kind, WorkKind::kCompute);
}

TEST(Classify, KnowsCollectivesInEverySpelling) {
  EXPECT_EQ(CollectiveKindOf("_reduce_scatter_base"), CollectiveKind::kReduceScatter);
  EXPECT_EQ(CollectiveKindOf("ncclDevKernel_ReduceScatter_Sum"), CollectiveKind::kReduceScatter);
  EXPECT_EQ(CollectiveKindOf("allreduce_coalesced"), CollectiveKind::kAllReduce);
  EXPECT_EQ(CollectiveKindOf("all_to_allv"), CollectiveKind::kAllToAll);
  EXPECT_EQ(CollectiveKindOf("ncclDevKernel_SendRecv"), CollectiveKind::kPermute);
  EXPECT_EQ(CollectiveKindOf("gloo:barrier"), CollectiveKind::kBarrier);
  EXPECT_EQ(CollectiveKindOf("recv"), CollectiveKind::kReceive);
  EXPECT_EQ(CollectiveKindOf("unknown"), CollectiveKind::kOther);
}

TEST(Classify, KnowsWaitsForInputAndCollections) {
  for (const std::string_view name :
       {"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "Input", "next_batch",
        "IteratorGetNextOp::DoCompute", "$dataloader.py:733 __next__"})
    EXPECT_EQ(ClassifyHostEvent(name), WorkKind::kInput) << name;
  for (const std::string_view name : {"Python GC", "gc.collect", "$gc collect"})
    EXPECT_EQ(ClassifyHostEvent(name), WorkKind::kGarbageCollection) << name;
  for (const std::string_view name :
       {"aten::addmm", "Handle inputs", "inputs", "$iter.py:7 __next__", "nccl:all_reduce"})
    EXPECT_EQ(ClassifyHostEvent(name), WorkKind::kHost) << name;
  EXPECT_EQ(ClassifyHostEvent("gloo:all_reduce"), WorkKind::kCommunication);
}

// Regression: two thirds of a server's time on CPUs, in collectives of its own, were compute.
TEST(Classify, KnowsCollectivesThroughSharedMemory) {
  for (const std::string_view name :
       {"_C::shm_allreduce", "_C::shm_all_gather", "sgl_kernel::shm_allgather",
        "_C::shm_send_tensor_list", "oneccl_bindings_for_pytorch::allreduce"})
    EXPECT_EQ(ClassifyHostEvent(name), WorkKind::kCommunication) << name;
  EXPECT_EQ(CollectiveKindOf("_C::shm_allreduce"), CollectiveKind::kAllReduce);
  // It only launches the kernel, or calls another operator, that communicates.
  for (const std::string_view name :
       {"vllm::all_reduce", "c10d::allreduce_", "_C::shm_init", "aten::scatter_reduce"})
    EXPECT_EQ(ClassifyHostEvent(name), WorkKind::kHost) << name;
}

}  // namespace
}  // namespace strobe::digest
