// Creates keys and certificates. All values are PEM; keys are P-256.
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
  WallTime from{}, until{};  // Both are whole seconds and inclusive.
};

// A new certificate is valid from this long before now, for peers whose clocks are behind.
inline constexpr Nanos kClockLeeway = std::chrono::minutes(5);
Validity ValidFor(Nanos lifetime, WallTime now);
// The time at which two thirds of the lifetime have passed.
WallTime RenewalTime(const Validity& validity);

enum class Usage { kServer, kClient };

// What a certificate states about the holder of its key.
struct Claim {
  std::string common_name{};  // Informational; not verified.
  std::vector<std::string> dns_names{};
  Usage usage = Usage::kServer;
  Validity validity{};
};

absl::StatusOr<std::string> NewKey();
// A signing request for this key. It contains no name: the authority decides the name, not the
// requester.
absl::StatusOr<std::string> NewSigningRequest(const std::string& key);

// A self-signed certificate authority. It may sign end-entity certificates but no further
// authorities.
absl::StatusOr<KeyPair> NewAuthority(const std::string& common_name, const Validity& validity);
// Certifies the key of the request and ignores the names in it. InvalidArgument if the request
// cannot be read, is not signed with its own key, or the key is not P-256.
absl::StatusOr<std::string> Certify(const KeyPair& authority, const std::string& signing_request,
                                    const Claim& claim);
// Creates a new key and certifies it.
absl::StatusOr<KeyPair> NewCertificate(const KeyPair& authority, const Claim& claim);

// The validity of the first certificate in the text.
absl::StatusOr<Validity> ValidityOf(const std::string& certificate);

}  // namespace strobe
