// The calls of CUDA that start work on a device: what the modes record that show launches, but not
// every call.
#pragma once
#include <cupti.h>

#include <span>

namespace strobe::agent {

std::span<const CUpti_CallbackId> LaunchCallsOfDriver();
std::span<const CUpti_CallbackId> LaunchCallsOfRuntime();

}  // namespace strobe::agent
