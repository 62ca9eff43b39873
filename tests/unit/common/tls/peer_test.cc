#include "common/tls/peer.h"

#include <gtest/gtest.h>

#include "common/tls/openssl_handles.h"

namespace strobe {
namespace {

using std::chrono::hours;

const WallTime kPeerNow{std::chrono::seconds(1'800'000'000)};
const Validity kPeerValid{kPeerNow - hours(1), kPeerNow + hours(24)};

KeyPair Authority(const Validity& validity = kPeerValid) {
  return *NewAuthority("strobe", validity);
}

std::string Issue(const KeyPair& authority, Usage usage = Usage::kServer,
                  const Validity& validity = kPeerValid) {
  return NewCertificate(authority, {"a pod", {"u1.pod.strobe.dev"}, usage, validity})->certificate;
}

TEST(Peer, TheOneWhoIsMeantPasses) {
  const KeyPair authority = Authority();
  EXPECT_EQ(JudgePeer(Issue(authority), {authority.certificate, "u1.pod.strobe.dev"}, kPeerNow),
            PeerVerdict::kOk);
  EXPECT_EQ(JudgePeer(Issue(authority, Usage::kClient),
                      {authority.certificate, "u1.pod.strobe.dev", Usage::kClient}, kPeerNow),
            PeerVerdict::kOk);
}

TEST(Peer, EverybodyElseIsToldApart) {
  const KeyPair authority = Authority(), stranger = Authority();
  const PeerRule rule{authority.certificate, "u1.pod.strobe.dev"};
  EXPECT_EQ(JudgePeer("", rule, kPeerNow), PeerVerdict::kNoCertificate);
  EXPECT_EQ(JudgePeer("garbage", rule, kPeerNow), PeerVerdict::kUntrusted);
  EXPECT_EQ(JudgePeer(Issue(stranger), rule, kPeerNow), PeerVerdict::kUntrusted);
  EXPECT_EQ(JudgePeer(Issue(authority, Usage::kClient), rule, kPeerNow), PeerVerdict::kUntrusted);
  EXPECT_EQ(JudgePeer(Issue(authority), rule, kPeerNow + hours(25)), PeerVerdict::kExpired);
  EXPECT_EQ(JudgePeer(Issue(authority), rule, kPeerNow - hours(2)), PeerVerdict::kExpired);
  EXPECT_EQ(JudgePeer(Issue(authority), {authority.certificate, "u2.pod.strobe.dev"}, kPeerNow),
            PeerVerdict::kWrongName);
  // The authority itself is nobody's peer.
  EXPECT_NE(JudgePeer(authority.certificate, rule, kPeerNow), PeerVerdict::kOk);
  // A leaf certifies nobody.
  const KeyPair leaf = *NewCertificate(authority, {"x", {"x"}, Usage::kServer, kPeerValid});
  EXPECT_FALSE(NewCertificate(leaf, {"x", {"x"}, Usage::kServer, kPeerValid}).ok());
  EXPECT_EQ(JudgePeer(Issue(authority), {"", "u1.pod.strobe.dev"}, kPeerNow),
            PeerVerdict::kUntrusted);
}

TEST(Peer, OldAndNewAuthorityOverlap) {
  const KeyPair old = Authority(), fresh = Authority();
  for (const std::string& bundle :
       {old.certificate + fresh.certificate, fresh.certificate + old.certificate}) {
    for (const KeyPair& authority : {old, fresh}) {
      EXPECT_EQ(JudgePeer(Issue(authority), {bundle, "u1.pod.strobe.dev"}, kPeerNow),
                PeerVerdict::kOk);
    }
  }
}

}  // namespace
}  // namespace strobe
