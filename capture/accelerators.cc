#include "capture/accelerators.h"

#include <algorithm>
#include <array>

namespace strobe::capture {
namespace {

constexpr ExpectedPlanes kByBoth{.framework = true, .agent = true};
constexpr ExpectedPlanes kByFramework{.framework = true, .agent = false};
// These vendors' profilers write their own files (Neuron: NTFF; Gaudi and Intel: through PyTorch's
// profiler). A profiler server returns no device plane for them.
constexpr ExpectedPlanes kByNobody{};

// Resource names as the vendors' device plugins register them.
constexpr std::array<Accelerator, 16> kTable = {{
    {.resource = "nvidia.com/gpu", .planes = kByBoth, .cuda = true},
    {.resource = "nvidia.com/gpu.shared",
     .planes = kByBoth,
     .cuda = true},  // Time-slicing or MPS with renamed resources.
    {.resource = "nvidia.com/mig-*",
     .planes = kByBoth,
     .cuda = true},  // Part of a GPU, such as mig-1g.10gb.
    {.resource = "amd.com/gpu", .planes = kByFramework},
    {.resource = "amd.com/spx_*",
     .planes = kByFramework},  // Partitions such as cpx_nps4, if named.
    {.resource = "amd.com/dpx_*", .planes = kByFramework},
    {.resource = "amd.com/qpx_*", .planes = kByFramework},
    {.resource = "amd.com/cpx_*", .planes = kByFramework},
    {.resource = "google.com/tpu", .planes = kByFramework},
    {.resource = "aws.amazon.com/neuron", .planes = kByNobody},
    {.resource = "aws.amazon.com/neuroncore", .planes = kByNobody},
    {.resource = "aws.amazon.com/neurondevice", .planes = kByNobody},  // Older plugins, until 2.19.
    {.resource = "habana.ai/gaudi", .planes = kByNobody},
    {.resource = "habana.ai/gaudi*", .planes = kByNobody},  // Plugins that name the generation.
    {.resource = "gpu.intel.com/i915", .planes = kByNobody},
    {.resource = "gpu.intel.com/xe", .planes = kByNobody},
}};
static_assert(std::all_of(kTable.begin(), kTable.end(), [](const Accelerator& a) {
  return (a.cuda || !a.planes.agent) &&
         std::count_if(kTable.begin(), kTable.end(),
                       [&a](const Accelerator& b) { return a.resource == b.resource; }) == 1;
}));

bool Names(const Accelerator& entry, std::string_view resource) {
  if (!entry.resource.ends_with('*')) return resource == entry.resource;
  const std::string_view prefix = entry.resource.substr(0, entry.resource.size() - 1);
  return resource.starts_with(prefix) && resource.size() > prefix.size();
}

}  // namespace

const Accelerator* FindAccelerator(std::string_view resource) {
  const auto found = std::find_if(kTable.begin(), kTable.end(),
                                  [resource](const Accelerator& a) { return Names(a, resource); });
  return found == kTable.end() ? nullptr : &*found;
}

std::vector<std::size_t> ChooseTrainers(std::span<const ContainerDevices> containers) {
  std::vector<std::size_t> chosen;
  const auto take = [&](bool ContainerDevices::*has) {
    for (std::size_t i = 0; i < containers.size(); ++i) {
      if (containers[i].*has) chosen.push_back(i);
    }
  };
  take(&ContainerDevices::accelerator);
  if (chosen.empty()) take(&ContainerDevices::claims);
  if (chosen.empty() && !containers.empty()) chosen.push_back(0);
  return chosen;
}

}  // namespace strobe::capture
