// Computes how far apart the workers of a job started to record.
#pragma once
#include <optional>
#include <span>

#include "common/base/clock.h"

namespace strobe::analysis {

struct CorrectedStart {
  WallTime started{};  // On the worker's clock.
  Nanos offset{};      // Worker clock minus operator clock.
  std::optional<Nanos>
      error{};  // Half-width of the offset's error interval; nullopt: not measured.
};

struct Skew {
  Nanos achieved{};  // Largest difference of two starts, clocks corrected.
  std::optional<Nanos>
      error{};  // Half-width of its error interval; nullopt: a clock is not measured.
};

// nullopt without starts; zero, without error, for a single one.
std::optional<Skew> ComputeSkew(std::span<const CorrectedStart> starts);

}  // namespace strobe::analysis
