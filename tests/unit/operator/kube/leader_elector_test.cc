#include "operator/kube/leader_elector.h"

#include <gtest/gtest.h>

#include "common/base/strings.h"
#include "tests/fakes/scripted_transport.h"

namespace strobe::kube {
namespace {

using namespace std::chrono_literals;

// A Lease with the API server's optimistic concurrency.
class FakeLease {
 public:
  absl::StatusOr<HttpResponse> Handle(const HttpRequest& request) {
    if (broken) return absl::UnavailableError("cut");
    if (request.method == "GET")
      return object.is_null() ? HttpResponse{404, "{}", {}} : HttpResponse{200, object.dump(), {}};
    Json body = Json::parse(request.body);
    if (request.method == "POST" && !object.is_null())
      return HttpResponse{409, R"({"reason":"AlreadyExists"})", {}};
    if (request.method == "PUT" && body["metadata"].value("resourceVersion", "") != StrCat(version))
      return HttpResponse{409, "{}", {}};
    body["metadata"]["resourceVersion"] = StrCat(++version);
    object = body;
    return HttpResponse{200, object.dump(), {}};
  }
  Json object;
  int version = 0;
  std::atomic<bool> broken{false};
};

LeaseOptions Options(const std::string& identity) {
  return {"ns", "strobe", identity, 6s, 3s, 50ms};
}

class LeaderElectorTest : public testing::Test {
 protected:
  LeaderElectorTest() {
    transport_->OnUnary([this](const HttpRequest& request) { return lease_.Handle(request); });
  }
  static bool Eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 4000 && !condition(); ++i) std::this_thread::sleep_for(5ms);
    return condition();
  }
  SystemClock clock_;
  FakeLease lease_;
  std::shared_ptr<ScriptedTransport> transport_ = std::make_shared<ScriptedTransport>();
  Client client_{clock_, transport_};
};

TEST_F(LeaderElectorTest, OnlyOneLeadsAndASuccessorTakesOverAReleasedLease) {
  std::atomic<int> led{0};
  auto first = std::make_unique<LeaderElector>(
      clock_, client_, Options("one"), [&] { ++led; }, [] {});
  first->Start();
  ASSERT_TRUE(Eventually([&] { return first->leading(); }));
  LeaderElector second(
      clock_, client_, Options("two"), [&] { ++led; }, [] {});
  second.Start();
  std::this_thread::sleep_for(200ms);
  EXPECT_FALSE(second.leading());
  first->Release();
  ASSERT_TRUE(Eventually([&] { return second.leading(); }));
  EXPECT_TRUE(Eventually([&] { return led == 2; })) << "told after it leads, by its own thread";
}

TEST_F(LeaderElectorTest, SaysWhenTheLeaseIsLost) {
  std::atomic<bool> lost{false};
  LeaderElector elector(
      clock_, client_, Options("one"), [] {}, [&] { lost = true; });
  elector.Start();
  ASSERT_TRUE(Eventually([&] { return elector.leading(); }));
  EXPECT_FALSE(lost);
  lease_.broken = true;
  EXPECT_TRUE(Eventually([&] { return lost.load(); }));
}

TEST(CheckLeaseOptions, RefusesTimesThatCannotWork) {
  EXPECT_TRUE(CheckLeaseOptions(Options("one")).ok());
  EXPECT_FALSE(CheckLeaseOptions(Options("")).ok());
  LeaseOptions options = Options("one");
  options.renew_deadline = options.duration;
  EXPECT_FALSE(CheckLeaseOptions(options).ok());
  options = Options("one");
  options.retry_period = options.renew_deadline;
  EXPECT_FALSE(CheckLeaseOptions(options).ok());
}

}  // namespace
}  // namespace strobe::kube
