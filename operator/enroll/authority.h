// Which authorities there are, which one signs and which are trusted. Pure.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tls/certificate.h"

namespace strobe {

struct AuthorityRules {
  Nanos lifetime = std::chrono::hours(365 * 24);
  // How long a new authority is only trusted before it signs: at least as long as whoever has to
  // trust it may go without news, which is a certificate's lifetime.
  Nanos settle = std::chrono::hours(24);
  Nanos certificate_lifetime = std::chrono::hours(24);
};

// lifetime / 3 > settle + certificate_lifetime, settle >= certificate_lifetime > 0, or nothing
// could follow anything in time.
absl::Status CheckAuthorityRules(const AuthorityRules& rules);

class Authorities {
 public:
  Authorities() = default;  // None.
  // PEM bundles in the same order.
  static absl::StatusOr<Authorities> Parse(const std::string& certificates,
                                           const std::string& keys);

  // Drops what has expired and adds a successor when it is time, or a first one. True when
  // something changed.
  absl::StatusOr<bool> Rotate(const AuthorityRules& rules, WallTime now);

  bool empty() const { return members_.empty(); }
  std::string certificates() const;  // PEM bundle, oldest first: whom to trust.
  std::string keys() const;
  std::vector<std::string> KeyList() const;
  // The newest that is settled; the oldest when none is. There must be one.
  const KeyPair& Signer(const AuthorityRules& rules, WallTime now) const;

 private:
  struct Member {
    KeyPair pair{};
    Validity validity{};
  };
  std::vector<Member> members_;  // Oldest first.
};

}  // namespace strobe
