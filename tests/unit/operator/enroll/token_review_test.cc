#include "operator/enroll/token_review.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "common/base/strings.h"
#include "tests/fakes/scripted_transport.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::kube {
namespace {

// SimulatedTime begins at 1700000000.
TEST(KubeTokenReviewer, AsksOnlyForWhatMayBeAToken) {
  SimulatedTime time;
  const auto transport = std::make_shared<ScriptedTransport>();
  transport->OnUnary([](const HttpRequest&) {
    return HttpResponse{201,
                        R"({"status": {"authenticated": true, "audiences": ["strobe"], "user": {
                            "username": "system:serviceaccount:ml:default", "extra": {
                              "authentication.kubernetes.io/pod-name": ["p"],
                              "authentication.kubernetes.io/pod-uid": ["u"]}}}})",
                        {}};
  });
  Client client(time, transport);
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

}  // namespace
}  // namespace strobe::kube
