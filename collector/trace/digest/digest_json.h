// Writes digests as JSON. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "collector/trace/digest/digest.h"

namespace strobe::digest {

// All of the digest, with names in the place of their numbers. Times are in ns and count from
// "zeroUnixNs"; what the trace does not tell is null or left out.
nlohmann::ordered_json DigestToJson(const Digest& digest);

// Parts of a digest. In host time, what the trace does not tell is null.
nlohmann::ordered_json TimeJson(const Breakdown& time);
nlohmann::ordered_json HostTimeJson(const HostTime& time, const Knows& knows);

// What is not known is null.
template <typename Number>
nlohmann::ordered_json KnownOrNull(const std::optional<Number>& number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

std::string_view NameOf(WorkKind kind);
std::string_view NameOf(CollectiveKind kind);

}  // namespace strobe::digest
