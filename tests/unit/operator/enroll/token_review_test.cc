#include "operator/enroll/token_review.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "common/base/strings.h"
#include "tests/fakes/scripted_transport.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::enroll {
namespace {

// SimulatedTime begins at 1700000000.
TEST(KubeTokenReviewer, AsksOnlyForWhatMayBeAToken) {
  SimulatedTime time;
  const auto transport = std::make_shared<kube::ScriptedTransport>();
  transport->OnUnary([](const kube::HttpRequest&) {
    return kube::HttpResponse{
        201,
        R"({"status": {"authenticated": true, "audiences": ["strobe"], "user": {
                            "username": "system:serviceaccount:ml:default", "extra": {
                              "authentication.kubernetes.io/pod-name": ["p"],
                              "authentication.kubernetes.io/pod-uid": ["u"]}}}})",
        {}};
  });
  kube::Client client(time, transport);
  KubeTokenReviewer reviewer(time, client);
  EXPECT_TRUE(absl::IsUnauthenticated(reviewer.Review("any text").status()));
  EXPECT_TRUE(transport->requests().empty());
  const std::string payload =
      absl::WebSafeBase64Escape(R"({"aud": ["strobe"], "exp": 1700003600})");
  const auto pod = reviewer.Review(StrCat("e30.", payload, ".c2ln"));
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(pod->ns + "/" + pod->name + "/" + pod->uid, "ml/p/u");
  EXPECT_EQ(transport->requests().size(), 1u);
}

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

}  // namespace strobe::enroll
