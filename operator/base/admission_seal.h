// Proof of who created a request. The requester's name is stored in an annotation, and a user who
// may write the object can change an annotation while the webhook is unavailable. The seal is an
// HMAC over the annotation's content, which that user cannot compute. Pure.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"

namespace strobe::kube {

// The user who created a request, as authenticated by the API server (userInfo).
struct Requester {
  std::string username{}, uid{};
  std::vector<std::string> groups{};
  std::map<std::string, std::vector<std::string>> extra{};
};

// What a seal proves. The webhook makes it before the object has a UID, so a later object with the
// same name and content could carry a copied seal. The time prevents that: it must match the
// creation time, which only the API server sets.
struct SealedAdmission {
  std::string ns{};  // The object's namespace.
  // The object's name, or its generateName followed by "*", which cannot be part of a name.
  std::string name{};
  std::string requester{};  // Who created the request, as canonical text.
  std::string content{};    // The sealed part of its spec, as canonical text.
  WallTime at{};            // When it was sealed, in whole seconds.
};

// `key` is secret and must not be empty.
std::string MakeSeal(const std::string& key, const SealedAdmission& admission);

// Whether the seal was made with any of `keys`: seals stay valid while the authority is rotated.
bool SealHolds(std::span<const std::string> keys, const SealedAdmission& admission,
               std::string_view seal);

// How far sealing and creation may lie apart. Both happen within one API request; the rest allows
// for clocks that differ.
inline constexpr Nanos kSealToCreation = std::chrono::minutes(5);

}  // namespace strobe::kube
