// A seal under who asked for a request. The name stands in an annotation of the object, which
// everybody who may write the object can change while our webhook is not asked; the seal is what
// they cannot make. Pure.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace strobe {

// What a seal vouches for. It is made before the object has a UID, so that a copy of the same
// content under the same name would carry it too: the time keeps copies from being of use, because
// the object's own time of creation is set by the API server.
struct SealedAdmission {
  std::string space{};
  // The object's, or its generateName with "*" behind it, which no name contains.
  std::string name{};
  std::string requester{};  // Who asked, as canonical text.
  std::string content{};    // What was asked of whom, as canonical text.
  WallTime at{};            // Whole seconds.
};

std::string MakeSeal(const std::string& key, const SealedAdmission& admission);

// Keys that authorities had or have; any of them will do.
bool SealHolds(std::span<const std::string> keys, const SealedAdmission& admission,
               std::string_view seal);

// Sealing and creation are one request to the API server; the rest is room for clocks.
inline constexpr Nanos kSealToCreation = std::chrono::minutes(5);

}  // namespace strobe
