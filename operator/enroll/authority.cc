#include "operator/enroll/authority.h"

#include <algorithm>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/tls/openssl_handles.h"

namespace strobe::enroll {
namespace {

constexpr char kEndOfKey[] = "-----END PRIVATE KEY-----\n";

std::vector<std::string> SplitKeys(const std::string& text) {
  std::vector<std::string> keys;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find(kEndOfKey, begin)) != std::string::npos;) {
    end += sizeof kEndOfKey - 1;
    keys.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return keys;
}

}  // namespace

absl::Status CheckAuthorityRules(const AuthorityRules& rules) {
  if (rules.certificate_lifetime < std::chrono::seconds(1))
    return absl::InvalidArgumentError("tls.certificateLifetime must be at least 1s");
  if (rules.settle < rules.certificate_lifetime)
    return absl::InvalidArgumentError("tls.settle must be at least tls.certificateLifetime");
  // An authority signs until its successor has settled, and no certificate may outlive the
  // authority that signed it.
  if (rules.lifetime / 3 <= rules.settle + rules.certificate_lifetime) {
    return absl::InvalidArgumentError(
        "tls.authorityLifetime must be more than 3 x (tls.settle + tls.certificateLifetime)");
  }
  return absl::OkStatus();
}

absl::StatusOr<Authorities> Authorities::Parse(const std::string& certificates,
                                               const std::string& keys) {
  ASSIGN_OR_RETURN(const std::vector<openssl::Certificate> read,
                   openssl::ReadCertificates(certificates));
  const std::vector<std::string> split = SplitKeys(keys);
  if (split.size() != read.size()) {
    return absl::DataLossError(
        StrCat(read.size(), " authorities but ", split.size(), " keys are stored"));
  }
  Authorities authorities;
  for (std::size_t i = 0; i < read.size(); ++i) {
    Member member{{openssl::ToPem(read[i]), split[i]}, {}};
    ASSIGN_OR_RETURN(const openssl::Key key, openssl::ReadKey(split[i]));
    if (X509_check_private_key(read[i].get(), key.get()) != 1)
      return absl::DataLossError("a stored authority's key does not match its certificate");
    ASSIGN_OR_RETURN(member.validity, ValidityOf(member.pair.certificate));
    authorities.members_.push_back(std::move(member));
  }
  return authorities;
}

absl::StatusOr<bool> Authorities::Rotate(const AuthorityRules& rules, WallTime now,
                                         std::optional<WallTime> by_another_clock) {
  const WallTime surely = std::min(now, by_another_clock.value_or(now));
  const auto expired = [surely](const Member& member) { return member.validity.until <= surely; };
  bool changed = std::erase_if(members_, expired) > 0;
  WallTime until = now;
  for (const Member& member : members_) {
    // A leader whose clock was ahead may have made one that is valid only later.
    if (member.validity.from <= now) until = std::max(until, member.validity.until);
  }
  if (until - now < rules.lifetime / 3) {
    Member fresh;
    fresh.validity = ValidFor(rules.lifetime, now);
    // The date in the name tells authorities apart, also for people who look at certificates.
    ASSIGN_OR_RETURN(fresh.pair,
                     NewAuthority(StrCat("strobe ", FormatRfc3339(now)), fresh.validity));
    members_.push_back(std::move(fresh));
    changed = true;
  }
  return changed;
}

std::string Authorities::certificates() const {
  std::string text;
  for (const Member& member : members_) text += member.pair.certificate;
  return text;
}

std::string Authorities::keys() const {
  std::string text;
  for (const Member& member : members_) text += member.pair.key;
  return text;
}

std::vector<std::string> Authorities::KeyList() const {
  std::vector<std::string> keys;
  for (const Member& member : members_) keys.push_back(member.pair.key);
  return keys;
}

const KeyPair& Authorities::Signer(const AuthorityRules& rules, WallTime now) const {
  const auto settled = std::find_if(members_.rbegin(), members_.rend(), [&](const Member& member) {
    return member.validity.from + kClockLeeway + rules.settle <= now;
  });
  if (settled != members_.rend()) return settled->pair;
  const auto valid = std::find_if(members_.begin(), members_.end(), [now](const Member& member) {
    return member.validity.from <= now && now < member.validity.until;
  });
  return valid == members_.end() ? members_.front().pair : valid->pair;
}

}  // namespace strobe::enroll
