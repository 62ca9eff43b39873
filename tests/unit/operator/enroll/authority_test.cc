#include "operator/enroll/authority.h"

#include <gmock/gmock.h>

#include "common/tls/peer.h"

namespace strobe::enroll {
namespace {

using std::chrono::hours;

const WallTime kStart{std::chrono::seconds(1'800'000'000)};
constexpr Nanos kDay = hours(24);

TEST(AuthorityRules, NothingMayFollowTooFast) {
  EXPECT_TRUE(CheckAuthorityRules({}).ok());
  EXPECT_FALSE(CheckAuthorityRules({.settle = hours(23)}).ok());
  EXPECT_FALSE(CheckAuthorityRules({.lifetime = 6 * kDay}).ok());
  EXPECT_TRUE(CheckAuthorityRules({.lifetime = 6 * kDay + hours(3)}).ok());
  EXPECT_FALSE(CheckAuthorityRules({.settle = kDay, .certificate_lifetime = Nanos{0}}).ok());
}

TEST(Authorities, SurviveStorage) {
  Authorities authorities;
  ASSERT_TRUE(authorities.Rotate({}, kStart).value());
  EXPECT_FALSE(authorities.Rotate({}, kStart + kDay).value());
  ASSERT_TRUE(authorities.Rotate({}, kStart + 300 * kDay).value());
  const auto read = Authorities::Parse(authorities.certificates(), authorities.keys());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->certificates(), authorities.certificates());
  EXPECT_EQ(read->keys(), authorities.keys());
}

TEST(Authorities, DamagedOnesAreRefused) {
  Authorities one, two;
  ASSERT_TRUE(one.Rotate({}, kStart).value());
  ASSERT_TRUE(two.Rotate({}, kStart).value());
  EXPECT_FALSE(Authorities::Parse(one.certificates(), two.keys()).ok());
  EXPECT_FALSE(Authorities::Parse(one.certificates(), "").ok());
  EXPECT_FALSE(Authorities::Parse("x", one.keys()).ok());
}

// Regression: a leader whose clock was months ahead erased the authority that all pods trust.
TEST(Authorities, AClockThatIsWrongErasesNothing) {
  Authorities authorities;
  ASSERT_TRUE(authorities.Rotate({}, kStart).value());
  const std::string before = authorities.certificates();
  EXPECT_FALSE(authorities.Rotate({}, kStart + kDay, kStart + 400 * kDay).value());
  EXPECT_EQ(authorities.certificates(), before);
  ASSERT_TRUE(authorities.Rotate({}, kStart + 400 * kDay, kStart + kDay).value());
  EXPECT_THAT(authorities.certificates(), testing::StartsWith(before));
  ASSERT_TRUE(authorities.Rotate({}, kStart + 400 * kDay, kStart + 400 * kDay).value());
  EXPECT_THAT(authorities.certificates(), testing::Not(testing::HasSubstr(before)));
}

// Regression: while the newest was not valid yet, none was made for as long as it would last.
TEST(Authorities, OneThatIsNotValidYetIsNotWaitedFor) {
  Authorities authorities;
  ASSERT_TRUE(authorities.Rotate({}, kStart + 400 * kDay).value());
  ASSERT_TRUE(authorities.Rotate({}, kStart).value());
  EXPECT_FALSE(authorities.Rotate({}, kStart + kDay).value());
  for (const Nanos later : {Nanos{0}, 2 * kDay}) {
    const Validity signer = *ValidityOf(authorities.Signer({}, kStart + later).certificate);
    EXPECT_LE(signer.from, kStart);
    EXPECT_GT(signer.until, kStart + 300 * kDay);
  }
}

// Checks at every step that a peer that last read the authorities one certificate lifetime ago
// trusts the current signer, and that the signer outlives the certificates that it signs. Returns
// the number of changes.
std::size_t LookFor(Nanos duration, Nanos step, const AuthorityRules& rules) {
  Authorities authorities;
  std::map<WallTime, std::string> trusted;  // By the time when they were read.
  std::size_t changes = 0;
  for (WallTime now = kStart; now < kStart + duration; now += step) {
    changes += authorities.Rotate(rules, now).value() ? 1 : 0;
    trusted[now] = authorities.certificates();
    const WallTime heard = now - rules.certificate_lifetime;
    if (trusted.count(heard) == 0) continue;
    const KeyPair& signer = authorities.Signer(rules, now);
    EXPECT_THAT(trusted[heard], testing::HasSubstr(signer.certificate)) << FormatRfc3339(now);
    EXPECT_GE(ValidityOf(signer.certificate)->until, now + rules.certificate_lifetime);
    trusted.erase(trusted.begin(), trusted.find(heard));
  }
  return changes;
}

TEST(Authorities, NobodyEverMeetsAnAuthorityItDoesNotKnow) {
  EXPECT_GE(LookFor(3650 * kDay, hours(12), {}), 20u)
      << "one comes and one goes, every eight months";
}

TEST(Authorities, NorWithTheTightestRules) {
  const AuthorityRules rules{.lifetime = 6 * kDay + hours(3)};
  ASSERT_TRUE(CheckAuthorityRules(rules).ok());
  EXPECT_GE(LookFor(100 * kDay, hours(1), rules), 40u);
}

}  // namespace
}  // namespace strobe::enroll
