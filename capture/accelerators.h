// The accelerators that pods can request, and what each means for a capture. Injection, target
// selection and verdicts share this one table. Pure.
#pragma once
#include <span>
#include <string_view>
#include <vector>

namespace strobe::capture {

// Which sources record an accelerator, so that the trace must have a "/device:" plane.
struct ExpectedPlanes {
  bool framework = false;  // The profiler of JAX, TensorFlow or PyTorch/XLA.
  bool agent = false;      // Strobe's agent, which records NVIDIA GPUs only (through CUPTI).

  bool operator==(const ExpectedPlanes&) const = default;
};

struct Accelerator {
  std::string_view resource;  // Name of the extended resource; "*" at its end matches any suffix.
  ExpectedPlanes planes;
  bool cuda =
      false;  // Used through CUDA, whose driver loads the agent from $CUDA_INJECTION64_PATH.
};

// Null for a resource that is not an accelerator: cpu, or nvidia.com/hostdev (a network card).
const Accelerator* FindAccelerator(std::string_view resource);

// What all resource requests and claims of one container amount to.
struct ContainerDevices {
  bool accelerator = false;  // It requests a resource of the table.
  // It claims devices (dynamic resource allocation). The pod does not say whether they are GPUs or
  // network cards, so the trace need not show them.
  bool claims = false;
  ExpectedPlanes planes{};  // What its trace must show.
  bool maybe_cuda = true;   // False only when nothing that it requests can be used through CUDA.

  bool operator==(const ContainerDevices&) const = default;
};

// Indexes of the containers that train: those that request an accelerator; if there are none, those
// with claims; if there are none either, the first container.
std::vector<std::size_t> ChooseTrainers(std::span<const ContainerDevices> containers);

}  // namespace strobe::capture
