// The pictures of a report. Pure. Each returns an SVG element, or "" where there is nothing to
// show.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collector/trace/digest/digest.h"
#include "collector/trace/report/op_changes.h"
#include "collector/trace/report/stragglers.h"

namespace strobe::cli {

// More workers or steps are not drawn, so that a page of a large job stays small.
inline constexpr std::size_t kMaxDrawnWorkers = 64, kMaxDrawnSteps = 200;

// What a bar is divided into: the parts that are not hidden, and idle time by its reason.
enum class BarPart : std::uint8_t {
  kCompute,
  kExposedCommunication,
  kExposedCopies,
  kInput,
  kGarbageCollection,
  kHostBound,
  kIdle,  // The rest of it.
};
inline constexpr std::size_t kBarParts = 7;

struct TimeBar {
  std::string label{};
  bool marked = false;
  std::array<double, kBarParts> ns{};  // All zeros = not known.
};
std::array<double, kBarParts> BarOf(const digest::Breakdown& time, const digest::HostTime& host,
                                    double divisor);
std::string BarPicture(std::span<const TimeBar> bars);

struct StepMark {
  std::string title{};
  double ns = 0;
  bool marked = false;
};
// `longest_ns` is the height of the picture, so that two of them can have the same scale.
std::string StepPicture(std::span<const StepMark> steps, double longest_ns);

// How long each of the workers waited in each step.
std::string WaitPicture(const report::Job& job, const report::StragglerReport& report,
                        std::span<const std::uint32_t> shown);

// The differences of operations that changed.
std::string OpPicture(std::span<const report::OpChange> changes);

}  // namespace strobe::cli
