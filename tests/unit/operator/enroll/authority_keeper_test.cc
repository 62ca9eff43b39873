#include "operator/enroll/authority_keeper.h"

#include <gmock/gmock.h>

#include "common/grpc_tls/credentials.h"
#include "common/tls/peer.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::enroll {
namespace {

using std::chrono::hours;

class MemoryAuthorityStore final : public AuthorityStore {
 public:
  absl::StatusOr<StoredAuthorities> Load() override {
    if (!failure.ok()) return failure;
    StoredAuthorities copy = stored;
    copy.version = std::to_string(version);
    copy.server_time = server_time;
    return copy;
  }
  absl::Status Save(const StoredAuthorities& authorities) override {
    if (authorities.version != std::to_string(version)) return absl::AbortedError("conflict");
    stored = authorities;
    ++version;
    return absl::OkStatus();
  }
  absl::Status WriteRoots(const std::string& roots) override {
    told = roots;
    return absl::OkStatus();
  }
  absl::StatusOr<bool> AreRootsWritten(const std::string& roots) override { return told == roots; }
  StoredAuthorities stored;
  int version = 1;
  std::string told;
  absl::Status failure;
  std::optional<WallTime> server_time;
};

class Keeper : public testing::Test {
 protected:
  AuthorityKeeper Make(bool leading) {
    return AuthorityKeeper(clock_, store_, {.server_names = {"strobe.ns.svc"}},
                           [leading] { return leading; });
  }
  PeerVerdict Judge(const LiveIdentity& identity, const std::string& name, Usage usage) {
    return JudgePeer(identity.Get()->own.certificate, {store_.told, name, usage}, clock_.WallNow());
  }
  SimulatedTime clock_;
  MemoryAuthorityStore store_;
};

TEST_F(Keeper, TheLeaderMakesTheFirstAuthorityAndAStandbyFollows) {
  AuthorityKeeper standby = Make(false), leader = Make(true);
  EXPECT_FALSE(standby.Look().ok());
  EXPECT_FALSE(standby.ready());
  ASSERT_TRUE(leader.Look().ok());
  EXPECT_EQ(store_.told, store_.stored.certificates);
  ASSERT_TRUE(standby.Look().ok());
  for (const AuthorityKeeper* keeper : {&standby, &leader}) {
    ASSERT_TRUE(keeper->ready());
    EXPECT_EQ(Judge(keeper->server(), "strobe.ns.svc", Usage::kServer), PeerVerdict::kOk);
    EXPECT_EQ(Judge(keeper->client(), kOperatorName, Usage::kClient), PeerVerdict::kOk);
  }
  const std::string pod =
      *standby.CertifyPod(*NewSigningRequest(*NewKey()), {"ns", "p", "u-1", ""});
  EXPECT_EQ(JudgePeer(pod, {store_.told, PodName("u-1")}, clock_.WallNow()), PeerVerdict::kOk);
}

TEST_F(Keeper, TellsWhenTheNewestAuthorityIsValid) {
  AuthorityKeeper keeper = Make(true);
  EXPECT_EQ(keeper.NewestAuthority(), std::nullopt);
  ASSERT_TRUE(keeper.Look().ok());
  const WallTime first = keeper.NewestAuthority().value().until;
  EXPECT_GT(first, clock_.WallNow() + AuthorityRules().lifetime - hours(1));
  clock_.Advance(AuthorityRules().lifetime * 3 / 4);
  ASSERT_TRUE(keeper.Look().ok());
  EXPECT_GT(keeper.NewestAuthority().value().until, first) << "its successor was made";
}

// Regression: the authorities survive an uninstallation, so after the next installation the
// operator was ready before the API server trusted it, and requests failed for ten seconds.
TEST_F(Keeper, NobodyIsReadyBeforeTheApiServerKnowsWhomToTrust) {
  ASSERT_TRUE(Make(true).Look().ok());
  store_.told.clear();
  AuthorityKeeper next = Make(false);
  EXPECT_FALSE(next.Look().ok());
  EXPECT_FALSE(next.ready());
  ASSERT_TRUE(Make(true).Look().ok());
  ASSERT_TRUE(next.Look().ok());
  EXPECT_TRUE(next.ready());
}

TEST_F(Keeper, ItsCertificatesAreAlwaysValid) {
  AuthorityKeeper leader = Make(true);
  ASSERT_TRUE(leader.Look().ok());
  const std::string key = leader.server().Get()->own.key;
  std::set<std::string> seen;
  for (int i = 0; i < 2 * 300; ++i) {  // 300 days: past the first change of authority.
    clock_.Advance(hours(12));
    ASSERT_TRUE(leader.Look().ok());
    ASSERT_EQ(Judge(leader.server(), "strobe.ns.svc", Usage::kServer), PeerVerdict::kOk) << i;
    seen.insert(leader.server().Get()->own.certificate);
  }
  EXPECT_GE(seen.size(), 300u);
  EXPECT_EQ(leader.server().Get()->own.key, key);
}

// Regression: the leader erased the authority that all pods trust, and kept what it had made
// instead when its clock was right again.
TEST_F(Keeper, WhatIsTrustedSurvivesALeaderWhoseClockIsAhead) {
  ASSERT_TRUE(Make(true).Look().ok());
  const std::string trusted = store_.stored.certificates;
  store_.server_time = clock_.WallNow();
  clock_.StepWall(AuthorityRules().lifetime * 2);
  AuthorityKeeper leader = Make(true);
  ASSERT_TRUE(leader.Look().ok());
  EXPECT_EQ(store_.stored.certificates, trusted);
  clock_.StepWall(-AuthorityRules().lifetime * 2);
  ASSERT_TRUE(leader.Look().ok());
  EXPECT_EQ(store_.stored.certificates, trusted);
  EXPECT_EQ(Judge(leader.server(), "strobe.ns.svc", Usage::kServer), PeerVerdict::kOk);
}

TEST_F(Keeper, AnAuthorityThatIsNotValidYetDoesNotLast) {
  clock_.StepWall(AuthorityRules().lifetime * 2);
  AuthorityKeeper leader = Make(true);
  ASSERT_TRUE(leader.Look().ok());
  clock_.StepWall(-AuthorityRules().lifetime * 2);
  ASSERT_TRUE(leader.Look().ok());
  EXPECT_EQ(Judge(leader.server(), "strobe.ns.svc", Usage::kServer), PeerVerdict::kOk);
}

TEST_F(Keeper, AFailingStoreCostsNothingMeanwhile) {
  AuthorityKeeper leader = Make(true);
  ASSERT_TRUE(leader.Look().ok());
  store_.failure = absl::UnavailableError("down");
  EXPECT_FALSE(leader.Look().ok());
  EXPECT_EQ(Judge(leader.server(), "strobe.ns.svc", Usage::kServer), PeerVerdict::kOk);
}

TEST_F(Keeper, TwoLeadersDoNotOverwriteEachOther) {
  AuthorityKeeper first = Make(true), second = Make(true);
  ASSERT_TRUE(first.Look().ok());
  const std::string made = store_.stored.certificates;
  ASSERT_TRUE(second.Look().ok());
  EXPECT_EQ(store_.stored.certificates, made);
}

}  // namespace
}  // namespace strobe::enroll
