#include "operator/enroll/pod_token.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "common/base/strings.h"

namespace strobe::kube {
namespace {

constexpr WallTime kNow{std::chrono::seconds(1'700'000'000)};

bool MayBe(std::string_view claims) {
  const std::string payload = absl::WebSafeBase64Escape(ToAbsl(claims));
  return MayBeAccepted(StrCat("e30.", payload, ".c2ln"), "strobe", kNow);
}

TEST(MayBeAccepted, OnlyTokensOfOurAudienceThatHaveNotExpired) {
  EXPECT_TRUE(MayBe(R"({"aud": ["strobe"], "exp": 1700000600})"));
  EXPECT_TRUE(MayBe(R"({"aud": ["api", "strobe"], "exp": 1700000600.5})"));
  EXPECT_TRUE(MayBe(R"({"aud": "strobe", "exp": 1700000600})"));
  EXPECT_TRUE(MayBe(R"({"aud": "strobe", "exp": 1699999940})")) << "clocks differ";
  EXPECT_FALSE(MayBe(R"({"aud": "strobe", "exp": 1699999000})"));
  EXPECT_FALSE(MayBe(R"({"aud": "strobe"})"));
  EXPECT_FALSE(MayBe(R"({"aud": "strobe", "exp": "1700000600"})"));
  EXPECT_FALSE(MayBe(R"({"aud": ["api"], "exp": 1700000600})"));
  EXPECT_FALSE(MayBe(R"({"aud": {"a": "strobe"}, "exp": 1700000600})"));
  EXPECT_FALSE(MayBe(R"({"exp": 1700000600})"));
  EXPECT_FALSE(MayBe("[1]"));
  EXPECT_FALSE(MayBe("nonsense"));
}

TEST(MayBeAccepted, NothingButATokenOfThreeParts) {
  for (const char* token : {"", "nonsense", ".", "..", "...", "a.b.c", "a.!.c", "a.e30", "a.e30.c"})
    EXPECT_FALSE(MayBeAccepted(token, "strobe", kNow)) << token;
  const std::string payload = absl::WebSafeBase64Escape(R"({"aud": "strobe", "exp": 1700000600})");
  EXPECT_TRUE(MayBeAccepted(StrCat("a.", payload, ".c"), "strobe", kNow));
  EXPECT_FALSE(MayBeAccepted(StrCat("a.", payload, ".c.d"), "strobe", kNow));
  EXPECT_FALSE(MayBeAccepted(StrCat("a.", payload), "strobe", kNow));
}

}  // namespace
}  // namespace strobe::kube
