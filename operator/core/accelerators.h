// Accelerators as pods ask for them, and what each means for a capture: the one table that
// injection, pods and captures share. Pure.
#pragma once
#include <span>
#include <string_view>
#include <vector>

namespace strobe {

// Which sources record an accelerator so that its trace has a "/device:" plane.
struct ExpectedPlanes {
  bool framework = false;  // The profiler of JAX, TensorFlow or PyTorch/XLA.
  bool agent = false;      // Strobe's agent, which knows CUPTI and nothing else.

  bool operator==(const ExpectedPlanes&) const = default;
};

struct Accelerator {
  std::string_view resource;  // An extended resource's name; one that ends in '*' is a prefix.
  ExpectedPlanes planes;
  bool cuda;  // Programs reach it by CUDA, whose driver loads $CUDA_INJECTION64_PATH.
};

std::span<const Accelerator> AllAccelerators();
// Null when the resource is not an accelerator, such as cpu or nvidia.com/hostdev, a network card.
const Accelerator* FindAccelerator(std::string_view resource);

// What a container asks for, of all its resources and claims together.
struct ContainerDevices {
  bool accelerator = false;  // Resources of the table.
  // Devices by claim (DRA). The pod does not say whether they are GPUs or network cards, so that
  // nothing is expected of them.
  bool claims = false;
  ExpectedPlanes planes{};  // What its trace must show.
  bool maybe_cuda = true;   // False only when everything it asks for is known to be without CUDA.

  bool operator==(const ContainerDevices&) const = default;
};

// The containers that train, by index: those that ask for an accelerator; else those with claims;
// else the first.
std::vector<std::size_t> ChooseTrainers(std::span<const ContainerDevices> containers);

}  // namespace strobe
