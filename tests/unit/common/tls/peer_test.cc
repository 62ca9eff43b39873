#include "common/tls/peer.h"

#include <gtest/gtest.h>

#include "common/tls/openssl_handles.h"

namespace strobe {
namespace {

using std::chrono::hours;

const WallTime kNow{std::chrono::seconds(1'800'000'000)};
const Validity kValid{kNow - hours(1), kNow + hours(24)};

KeyPair Authority(const Validity& validity = kValid) { return *NewAuthority("strobe", validity); }

std::string Issue(const KeyPair& authority, Usage usage = Usage::kServer,
                  const Validity& validity = kValid) {
  return NewCertificate(authority, {"a pod", {"u1.pod.strobe.dev"}, usage, validity})->certificate;
}

TEST(Peer, TheOneWhoIsMeantPasses) {
  const KeyPair authority = Authority();
  EXPECT_EQ(JudgePeer(Issue(authority), {authority.certificate, "u1.pod.strobe.dev"}, kNow),
            PeerVerdict::kOk);
  EXPECT_EQ(JudgePeer(Issue(authority, Usage::kClient),
                      {authority.certificate, "u1.pod.strobe.dev", Usage::kClient}, kNow),
            PeerVerdict::kOk);
}

TEST(Peer, EverybodyElseIsToldApart) {
  const KeyPair authority = Authority(), stranger = Authority();
  const PeerRule rule{authority.certificate, "u1.pod.strobe.dev"};
  EXPECT_EQ(JudgePeer("", rule, kNow), PeerVerdict::kNoCertificate);
  EXPECT_EQ(JudgePeer("garbage", rule, kNow), PeerVerdict::kUntrusted);
  EXPECT_EQ(JudgePeer(Issue(stranger), rule, kNow), PeerVerdict::kUntrusted);
  EXPECT_EQ(JudgePeer(Issue(authority, Usage::kClient), rule, kNow), PeerVerdict::kUntrusted);
  EXPECT_EQ(JudgePeer(Issue(authority), rule, kNow + hours(25)), PeerVerdict::kExpired);
  EXPECT_EQ(JudgePeer(Issue(authority), rule, kNow - hours(2)), PeerVerdict::kExpired);
  EXPECT_EQ(JudgePeer(Issue(authority), {authority.certificate, "u2.pod.strobe.dev"}, kNow),
            PeerVerdict::kWrongName);
  // The authority's own certificate is not a valid peer certificate.
  EXPECT_NE(JudgePeer(authority.certificate, rule, kNow), PeerVerdict::kOk);
  // A leaf certificate must not certify others.
  const KeyPair leaf = *NewCertificate(authority, {"x", {"x"}, Usage::kServer, kValid});
  EXPECT_FALSE(NewCertificate(leaf, {"x", {"x"}, Usage::kServer, kValid}).ok());
  EXPECT_EQ(JudgePeer(Issue(authority), {"", "u1.pod.strobe.dev"}, kNow), PeerVerdict::kUntrusted);
}

TEST(Peer, OldAndNewAuthorityOverlap) {
  const KeyPair old = Authority(), fresh = Authority();
  for (const std::string& bundle :
       {old.certificate + fresh.certificate, fresh.certificate + old.certificate}) {
    for (const KeyPair& authority : {old, fresh}) {
      EXPECT_EQ(JudgePeer(Issue(authority), {bundle, "u1.pod.strobe.dev"}, kNow), PeerVerdict::kOk);
    }
  }
}

}  // namespace
}  // namespace strobe
