// What to do next about the time that a job loses: rules with thresholds that others have
// published. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/trace/report/operations.h"

namespace strobe::report {

enum class AdviceRule : std::uint8_t {
  kLaunches,
  kInput,
  kGarbageCollection,
  kCommunication,
  kCopies,
  kOtherIdle,
  kMemory,
  kCompute,  // Nothing else is lost.
};

// What a rule says, and from which share of the time on (kMemory: of a device's memory).
struct AdviceWords {
  std::string_view name{};
  double threshold = 0;
  std::string_view source{};  // Who has published the threshold.
  std::string_view next{};    // What to do.
  std::string_view link{};    // Where that is explained; empty: nowhere in particular.
};
const AdviceWords& WordsOf(AdviceRule rule);

struct Advice {
  AdviceRule rule = AdviceRule::kCompute;
  double share = 0;    // In the mean of the workers whose traces tell it.
  std::string what{};  // "waiting for launches".
  // Where to look: the worker that loses most, and its step in which it lost most.
  std::uint32_t worker = 0;
  std::optional<std::int64_t> step{};
};
// What is lost most first. Empty if no trace tells what ran on a device.
std::vector<Advice> AdviceFor(const Job& job);

}  // namespace strobe::report
