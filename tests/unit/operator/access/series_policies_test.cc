#include "operator/access/series_policies.h"

#include <gmock/gmock.h>

#include "tests/fakes/scripted_transport.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::access {
namespace {

using namespace std::chrono_literals;
using testing::SizeIs;

class SeriesPoliciesTest : public testing::Test {
 protected:
  SeriesPoliciesTest() {
    server_->OnUnary([this](const kube::HttpRequest&) -> absl::StatusOr<kube::HttpResponse> {
      if (away_) return absl::UnavailableError("away");
      return kube::HttpResponse{200, R"({"metadata": {"labels": {"team": "ml"}}})", {}};
    });
  }
  void Fill(const char* spec) {
    kube::Json policy = {{"metadata", {{"name", "p"}}}, {"spec", kube::Json::parse(spec)}};
    policies_.ReplaceAll({std::make_shared<const kube::Json>(std::move(policy))});
  }

  SimulatedTime time_;
  const std::shared_ptr<kube::ScriptedTransport> server_ =
      std::make_shared<kube::ScriptedTransport>();
  kube::Client client_{time_, server_};
  kube::ObjectCache policies_;
  SeriesPolicies series_{time_, client_, policies_};
  bool away_ = false;
};

TEST_F(SeriesPoliciesTest, NothingIsAskedWhereNoPolicyBounds) {
  EXPECT_EQ(series_.BoundsOf("a"), std::nullopt) << "the policies are not known yet";
  Fill(R"({"allowedLogdirs": ["/logs"], "automatic": {"maxConcurrent": 1}})");
  EXPECT_EQ(series_.BoundsOf("a"), policy::SeriesBounds{});
  EXPECT_THAT(server_->requests(), SizeIs(0));
}

TEST_F(SeriesPoliciesTest, LabelsAreReadEveryFiveMinutes) {
  Fill(
      R"({"allowedLogdirs": ["/logs"], "automatic": {"keep": {"runs": 2}}, "namespaceSelector": {"matchLabels": {"team": "ml"}}})");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(series_.BoundsOf("a"), (policy::SeriesBounds{.runs = 2}));
  EXPECT_THAT(server_->requests(), SizeIs(1));
  series_.BoundsOf("b");
  EXPECT_THAT(server_->requests(), SizeIs(2));
  time_.Advance(5min + 1s);
  series_.BoundsOf("a");
  EXPECT_THAT(server_->requests(), SizeIs(3));
  Fill(
      R"({"allowedLogdirs": ["/logs"], "automatic": {"keep": {"runs": 2}}, "namespaceSelector": {"matchLabels": {"team": "x"}}})");
  EXPECT_EQ(series_.BoundsOf("a"), policy::SeriesBounds{}) << "policies are known as they are";
}

TEST_F(SeriesPoliciesTest, WithoutLabelsNothingIsKnown) {
  Fill(R"({"allowedLogdirs": ["/logs"], "automatic": {"keep": {"for": "1h"}}})");
  away_ = true;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(series_.BoundsOf("a"), std::nullopt);
  EXPECT_THAT(server_->requests(), SizeIs(1)) << "a server that is away is not asked by everybody";
  away_ = false;
  time_.Advance(6s);
  EXPECT_EQ(series_.BoundsOf("a"), (policy::SeriesBounds{.age = 1h}));
}

}  // namespace
}  // namespace strobe::access
