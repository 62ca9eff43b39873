#include "agent/cupti/kinds.h"

namespace strobe::agent {
namespace {

// A number stays that of its call in later versions of CUDA. What is not here has no arrow: newer
// calls, and copies to and from arrays.
constexpr CUpti_CallbackId kDriver[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2_ptds,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2_ptds,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD_v2_ptds,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async_ptsz,
};

constexpr CUpti_CallbackId kRuntime[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_ptsz_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernelMultiDevice_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_ptds_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_ptsz_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DAsync_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DAsync_ptsz_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DAsync_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DAsync_ptsz_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeerAsync_v4000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_v12080,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_ptsz_v12080,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemset_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemset_ptds_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_ptsz_v7000,
};

using wire::DeviceMode;
using wire::DeviceStep;

struct Kind {
  CUpti_ActivityKind kind;
  DeviceStep step;  // kNone: recording goes on without this kind if CUPTI refuses it.
};

constexpr Kind kKinds[] = {
    // Enabled before the kernels, because a graph's own then have no records.
    {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, DeviceStep::kEnableGraphs},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, DeviceStep::kEnableKernels},
    {CUPTI_ACTIVITY_KIND_MEMCPY, DeviceStep::kEnableCopies},
    {CUPTI_ACTIVITY_KIND_MEMSET, DeviceStep::kEnableCopies},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, DeviceStep::kNone},
    {CUPTI_ACTIVITY_KIND_MEMORY2, DeviceStep::kNone},
    // Enabled before the calls, so that a correlation record precedes the call it refers to.
    {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, DeviceStep::kNone},
    {CUPTI_ACTIVITY_KIND_DRIVER, DeviceStep::kNone},
    {CUPTI_ACTIVITY_KIND_RUNTIME, DeviceStep::kNone},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, DeviceStep::kNone},
    {CUPTI_ACTIVITY_KIND_MARKER, DeviceStep::kNone},
};

bool Records(DeviceMode mode, CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return mode == DeviceMode::kGraphs;
    case CUPTI_ACTIVITY_KIND_MARKER:  // Costs only programs that tell ranges.
      return mode != DeviceMode::kKernels;
    case CUPTI_ACTIVITY_KIND_MEMORY2:
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return mode == DeviceMode::kAll;
    default:
      return true;
  }
}

void SelectLaunchCalls(Subscription& subscription, CuptiUndo& undo) {
  const auto select = [&subscription](bool on) {
    for (const CUpti_CallbackId call : LaunchCallsOfDriver())
      subscription.SelectCall(CUPTI_CB_DOMAIN_DRIVER_API, call, on);
    for (const CUpti_CallbackId call : LaunchCallsOfRuntime())
      subscription.SelectCall(CUPTI_CB_DOMAIN_RUNTIME_API, call, on);
    return CUPTI_SUCCESS;
  };
  select(/*on=*/true);
  undo.emplace_back([select] { return select(/*on=*/false); });
}

}  // namespace

std::span<const CUpti_CallbackId> LaunchCallsOfDriver() { return kDriver; }

std::span<const CUpti_CallbackId> LaunchCallsOfRuntime() { return kRuntime; }

DeviceMode ModeOf(std::uint32_t word) {
  const auto mode = static_cast<DeviceMode>(word & wire::kDeviceModeMask);
  const bool chosen =
      mode == DeviceMode::kKernels || mode == DeviceMode::kGraphs || mode == DeviceMode::kAll;
  return chosen ? mode : DeviceMode::kLaunches;
}

std::optional<CuptiFailure> EnableKinds(Subscription& subscription, DeviceMode mode,
                                        CuptiUndo& undo) {
  const bool launches = mode == DeviceMode::kLaunches || mode == DeviceMode::kGraphs;
  const bool selects = launches && subscription.CanSelectCalls();
  for (const Kind& kind : kKinds) {
    const bool is_call =
        kind.kind == CUPTI_ACTIVITY_KIND_DRIVER || kind.kind == CUPTI_ACTIVITY_KIND_RUNTIME;
    // Where calls cannot be selected, all of them are recorded.
    if (!Records(mode, kind.kind) && !(is_call && launches && !selects)) continue;
    const CUptiResult result = subscription.Enable(kind.kind);
    if (result == CUPTI_SUCCESS)
      undo.emplace_back([&subscription, which = kind.kind] { return subscription.Disable(which); });
    else if (kind.step != DeviceStep::kNone)
      return CuptiFailure{kind.step, result};
  }
  if (selects) SelectLaunchCalls(subscription, undo);
  return std::nullopt;
}

}  // namespace strobe::agent
