// Making keys and certificates. Everything is PEM; keys are P-256.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace strobe {

struct KeyPair {
  std::string certificate{}, key{};
};

struct Validity {
  WallTime from{}, until{};  // Whole seconds; `until` is the last one.
};

// Of what is certified now: a little back too, for clocks that are behind.
inline constexpr Nanos kClockLeeway = std::chrono::minutes(5);
Validity ValidFor(Nanos lifetime, WallTime now);
// When two thirds of the lifetime have passed.
WallTime RenewalTime(const Validity& validity);

enum class Usage { kServer, kClient };

// What an authority says of the holder of a key.
struct Claim {
  std::string common_name{};  // For people.
  std::vector<std::string> dns_names{};
  Usage usage = Usage::kServer;
  Validity validity{};
};

absl::StatusOr<std::string> NewKey();
// A request to certify this key. It names nobody: who the asker is, is not for the asker to say.
absl::StatusOr<std::string> NewSigningRequest(const std::string& key);

// Signs its own certificate and those of others, but no authority's.
absl::StatusOr<KeyPair> NewAuthority(const std::string& common_name, const Validity& validity);
// Certifies the key of the request, whose own names are ignored. InvalidArgument when the request
// cannot be read, is not signed by its own key, or the key is no P-256 key.
absl::StatusOr<std::string> Certify(const KeyPair& authority, const std::string& signing_request,
                                    const Claim& claim);
// A new key with its certificate.
absl::StatusOr<KeyPair> NewCertificate(const KeyPair& authority, const Claim& claim);

// Of the first certificate in the text.
absl::StatusOr<Validity> ValidityOf(const std::string& certificate);

}  // namespace strobe
