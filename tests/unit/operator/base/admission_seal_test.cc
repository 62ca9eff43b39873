#include "operator/base/admission_seal.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/base/hash.h"

namespace strobe::kube {
namespace {

using namespace std::chrono_literals;

const SealedAdmission kAdmission{.ns = "ml",
                                 .name = "look",
                                 .requester = R"({"username":"jane"})",
                                 .content = R"({"logdir":"/logs"})",
                                 .at = WallTime{1'790'000'000s}};

TEST(AdmissionSeal, HoldsForWhatItWasMadeOfAndNothingElse) {
  const std::vector<std::string> keys = {"key"};
  const std::string seal = MakeSeal("key", kAdmission);
  EXPECT_TRUE(SealHolds(keys, kAdmission, seal));
  for (const auto field : {&SealedAdmission::ns, &SealedAdmission::name,
                           &SealedAdmission::requester, &SealedAdmission::content}) {
    SealedAdmission other = kAdmission;
    other.*field += "x";
    EXPECT_FALSE(SealHolds(keys, other, seal));
  }
  SealedAdmission later = kAdmission;
  later.at += 1s;
  EXPECT_FALSE(SealHolds(keys, later, seal));
  // A character that moves from one field to the next invalidates the seal.
  SealedAdmission shifted = kAdmission;
  shifted.ns = "mll";
  shifted.name = "ook";
  EXPECT_FALSE(SealHolds(keys, shifted, seal));
}

TEST(AdmissionSeal, HoldsAfterTheKeyWasFollowedByAnother) {
  const std::string seal = MakeSeal("old", kAdmission);
  EXPECT_TRUE(SealHolds(std::vector<std::string>{"new", "old"}, kAdmission, seal));
  EXPECT_FALSE(SealHolds(std::vector<std::string>{"new"}, kAdmission, seal));
  EXPECT_FALSE(SealHolds({}, kAdmission, seal));
}

TEST(AdmissionSeal, AnEmptyKeyOrSealIsNone) {
  EXPECT_FALSE(SealHolds(std::vector<std::string>{""}, kAdmission, MakeSeal("", kAdmission)));
  EXPECT_FALSE(SealHolds(std::vector<std::string>{"key"}, kAdmission, ""));
}

TEST(HmacSha256, IsTheOneOfRfc4231) {
  EXPECT_EQ(HmacSha256("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

}  // namespace
}  // namespace strobe::kube
