#include "common/tls/certificate.h"

#include <gtest/gtest.h>

#include "common/tls/openssl_handles.h"
#include "common/tls/peer.h"

namespace strobe {
namespace {

using std::chrono::hours;

const WallTime kNow{std::chrono::seconds(1'800'000'000)};
const Validity kValid{kNow, kNow + hours(24)};

TEST(Certificate, SaysHowLongItHolds) {
  const KeyPair authority = *NewAuthority("strobe", kValid);
  const absl::StatusOr<Validity> validity = ValidityOf(authority.certificate);
  ASSERT_TRUE(validity.ok());
  EXPECT_EQ(validity->from, kValid.from);
  EXPECT_EQ(validity->until, kValid.until);
  EXPECT_FALSE(ValidityOf("").ok());
}

TEST(Certificate, IsRenewedAfterTwoThirds) {
  const Validity validity = ValidFor(hours(24), kNow);
  EXPECT_LT(validity.from, kNow) << "clocks that are behind";
  EXPECT_EQ(RenewalTime(validity), kNow + hours(16));
}

TEST(Certificate, OnlyTheHolderOfAKeyHasItCertified) {
  const KeyPair authority = *NewAuthority("strobe", kValid);
  const Claim claim{"pod", {"u.pod.strobe.dev"}, Usage::kServer, kValid};
  const std::string request = *NewSigningRequest(*NewKey());
  EXPECT_TRUE(Certify(authority, request, claim).ok());

  // A request that is signed with a key other than the one that it contains.
  const openssl::Key own = *openssl::ReadKey(*NewKey()), other = *openssl::ReadKey(*NewKey());
  const openssl::SigningRequest forged(X509_REQ_new());
  X509_REQ_set_pubkey(forged.get(), other.get());
  X509_REQ_sign(forged.get(), own.get(), EVP_sha256());
  EXPECT_EQ(Certify(authority, openssl::ToPem(forged), claim).status().code(),
            absl::StatusCode::kInvalidArgument);
  for (const std::string& bad : {std::string(), std::string("garbage"), std::string(9000, 'x'),
                                 request.substr(0, request.size() / 2)}) {
    EXPECT_EQ(Certify(authority, bad, claim).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(Certificate, OtherKindsOfKeysAreRefused) {
  const KeyPair authority = *NewAuthority("strobe", kValid);
  const openssl::Key rsa(EVP_RSA_gen(2048));
  const openssl::SigningRequest request(X509_REQ_new());
  X509_REQ_set_pubkey(request.get(), rsa.get());
  X509_REQ_sign(request.get(), rsa.get(), EVP_sha256());
  EXPECT_EQ(Certify(authority, openssl::ToPem(request), {"pod", {"u"}, Usage::kServer, kValid})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Certificate, TheRequestsOwnNamesAreIgnored) {
  const KeyPair authority = *NewAuthority("strobe", kValid);
  const openssl::Key key = *openssl::ReadKey(*NewKey());
  const openssl::SigningRequest request(X509_REQ_new());
  X509_REQ_set_pubkey(request.get(), key.get());
  X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(request.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("operator.strobe.dev"), -1, -1,
                             0);
  X509_REQ_sign(request.get(), key.get(), EVP_sha256());
  const std::string certificate = *Certify(authority, openssl::ToPem(request),
                                           {"pod", {"u.pod.strobe.dev"}, Usage::kServer, kValid});
  EXPECT_EQ(JudgePeer(certificate, {authority.certificate, "operator.strobe.dev"}, kNow),
            PeerVerdict::kWrongName);
  EXPECT_EQ(JudgePeer(certificate, {authority.certificate, "u.pod.strobe.dev"}, kNow),
            PeerVerdict::kOk);
}

}  // namespace
}  // namespace strobe
