// How well the starts of a job's workers were aligned.
#pragma once
#include <optional>
#include <span>

#include "common/base/clock.h"

namespace strobe {

struct CorrectedStart {
  WallTime started{};            // On the worker's clock.
  Nanos offset{};                // Worker clock minus ours,
  std::optional<Nanos> error{};  // true within +- this; none = never measured.
};

struct Skew {
  Nanos achieved{};              // Largest difference of two starts on one clock.
  std::optional<Nanos> error{};  // True within +- this; none when a clock was never measured.
};

// Nothing for no starts; zero for one.
std::optional<Skew> ComputeSkew(std::span<const CorrectedStart> starts);

}  // namespace strobe
