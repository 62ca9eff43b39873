// The operator's certificate authorities: which of them are trusted, and which one signs. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tls/certificate.h"

namespace strobe::enroll {

struct AuthorityRules {
  Nanos lifetime = std::chrono::hours(365 * 24);
  // How long a new authority is trusted before it signs. Everybody hears of it when its certificate
  // is renewed, so this is at least the lifetime of a certificate.
  Nanos settle = std::chrono::hours(24);
  Nanos certificate_lifetime = std::chrono::hours(24);
};

// InvalidArgument unless lifetime / 3 > settle + certificate_lifetime and settle >=
// certificate_lifetime >= 1 s: otherwise an authority could expire before its successor signs.
absl::Status CheckAuthorityRules(const AuthorityRules& rules);

class Authorities {
 public:
  Authorities() = default;  // There is none yet.
  // PEM bundles of certificates and of their keys, in the same order. DataLoss when they do not
  // match.
  static absl::StatusOr<Authorities> Parse(const std::string& certificates,
                                           const std::string& keys);

  // Drops authorities that have expired, by another clock too if there is one: what pods trust must
  // not be lost to a clock that is wrong. Adds one when less than a third of the lifetime is left
  // of those that are valid. True when something changed.
  absl::StatusOr<bool> Rotate(const AuthorityRules& rules, WallTime now,
                              std::optional<WallTime> by_another_clock = std::nullopt);

  bool empty() const { return members_.empty(); }
  // When the newest authority is valid. Not to be called when empty.
  const Validity& newest() const { return members_.back().validity; }
  std::string certificates() const;  // PEM bundle, oldest first; all of them are trusted.
  std::string keys() const;
  std::vector<std::string> KeyList() const;
  // The newest authority that has settled, or the oldest that is valid when none has. Not to be
  // called when empty.
  const KeyPair& Signer(const AuthorityRules& rules, WallTime now) const;

 private:
  struct Member {
    KeyPair pair{};
    Validity validity{};
  };
  std::vector<Member> members_;  // Oldest first.
};

}  // namespace strobe::enroll
