#include "operator/access/policy_keeper.h"

#include <gmock/gmock.h>

#include "tests/fakes/scripted_transport.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::access {
namespace {

using testing::SizeIs;

class PolicyKeeperTest : public testing::Test {
 protected:
  PolicyKeeperTest() {
    server_->OnUnary(
        [this](const kube::HttpRequest& request) -> absl::StatusOr<kube::HttpResponse> {
          if (code_ != 200) return kube::HttpResponse{code_, R"({"message": "no"})", std::nullopt};
          // What was applied becomes the stored object, as on the API server.
          kube::Json stored = *keeper_.cache().Get("/team");
          stored["status"] = kube::Json::parse(request.body)["status"];
          keeper_.cache().Put(std::make_shared<const kube::Json>(std::move(stored)));
          return kube::HttpResponse{200, "{}", std::nullopt};
        });
  }

  void Store(const kube::Json& spec) {
    keeper_.cache().Put(std::make_shared<const kube::Json>(
        kube::Json({{"metadata",
                     {{"name", "team"}, {"uid", "u"}, {"resourceVersion", "7"}, {"generation", 1}}},
                    {"spec", spec}})));
  }

  SimulatedTime time_;
  const std::shared_ptr<kube::ScriptedTransport> server_ =
      std::make_shared<kube::ScriptedTransport>();
  kube::Client client_{time_, server_};
  PolicyKeeper keeper_{time_, client_, std::chrono::seconds(290)};
  int code_ = 200;
};

TEST_F(PolicyKeeperTest, WritesTheStatusOnce) {
  Store({{"allowedLogdirs", {"/logs"}}});
  EXPECT_TRUE(keeper_.Reconcile("/team").ok());
  ASSERT_THAT(server_->requests(), SizeIs(1));
  const kube::Json written = kube::Json::parse(server_->requests()[0].body);
  EXPECT_EQ(written["metadata"],
            kube::Json::parse(R"({"name": "team", "uid": "u", "resourceVersion": "7"})"));
  EXPECT_EQ(written["status"]["observedGeneration"], 1);
  EXPECT_EQ(written["status"]["conditions"][0]["status"], "True");
  EXPECT_TRUE(keeper_.Reconcile("/team").ok());
  EXPECT_TRUE(keeper_.Reconcile("/gone").ok());
  EXPECT_THAT(server_->requests(), SizeIs(1)) << "nothing has changed";
}

TEST_F(PolicyKeeperTest, AConflictIsLeftToTheWatchAndAnErrorIsTriedAgain) {
  Store({{"allowedLogdirs", {"/logs"}}});
  for (const int code : {404, 409}) {
    code_ = code;
    EXPECT_TRUE(keeper_.Reconcile("/team").ok()) << code;
  }
  code_ = 403;
  EXPECT_FALSE(keeper_.Reconcile("/team").ok());
}

}  // namespace
}  // namespace strobe::access
