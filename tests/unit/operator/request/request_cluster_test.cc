#include "operator/request/request_cluster.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"
#include "tests/fakes/scripted_transport.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::request {
namespace {

using testing::SizeIs;

// A namespace with 1,000 pods.
class RequestClusterTest : public testing::Test {
 protected:
  RequestClusterTest() {
    transport_->OnUnary(
        [this](const kube::HttpRequest& request) -> absl::StatusOr<kube::HttpResponse> {
          const std::string path = request.path.substr(0, request.path.find('?'));
          const auto pod = [this](const std::string& name) {
            return StrCat(R"({"metadata": {"name": ")", name, R"(",
            "labels": {"app": "train", "strobe.dev/rank": "3"}, "annotations": {"notes": "long"}},
            "spec": {"containers": [{"name": "t",
                     "env": [{"name": "TPU_WORKER_HOSTNAMES", "value": ")",
                          hosts_, R"("}]}]}})");
          };
          if (path != "/api/v1/namespaces/ml/pods")
            return kube::HttpResponse{200, pod(path.substr(path.rfind('/') + 1)), {}};
          std::vector<std::string> pods;
          for (int i = 0; i < 1000; ++i) pods.push_back(pod(StrCat("p", i)));
          return kube::HttpResponse{200, StrCat(R"({"items": [)", Join(pods, ","), "]}"), {}};
        });
  }
  std::vector<job::PodInfo> Named(int count) {
    job::PodQuery query;
    for (int i = 0; i < count; ++i) query.names.push_back(StrCat("p", i));
    return *cluster_.ListPods("ml", query);
  }

  std::string hosts_ = "host";
  SimulatedTime time_;
  std::shared_ptr<kube::ScriptedTransport> transport_ = std::make_shared<kube::ScriptedTransport>();
  kube::Client client_{time_, transport_};
  kube::EventRecorder events_{time_, client_, "test"};
  kube::ObjectCache requests_;
  RequestCluster cluster_{client_, requests_, events_};
};

// Regression: from 17 names on, the whole namespace was listed.
TEST_F(RequestClusterTest, AFewHundredPodsAreReadOneByOne) {
  EXPECT_THAT(Named(20), SizeIs(20));
  EXPECT_THAT(transport_->requests(), SizeIs(20));
  for (const kube::HttpRequest& request : transport_->requests())
    EXPECT_TRUE(request.path.starts_with("/api/v1/namespaces/ml/pods/p")) << request.path;
  EXPECT_THAT(Named(300), SizeIs(300));
  EXPECT_THAT(transport_->requests(), SizeIs(21));
}

TEST_F(RequestClusterTest, OfPodsOnlyWhatIsUsedIsKept) {
  for (const int count : {1, 300}) {
    const job::PodInfo pod = Named(count).at(0);
    EXPECT_EQ(pod.labels, (std::map<std::string, std::string>{{"strobe.dev/rank", "3"}}));
    EXPECT_TRUE(pod.annotations.empty());
  }
}

// Regression: 100 pods with large variables took more than a gigabyte.
TEST_F(RequestClusterTest, ThePodsOfOneLookTakeABoundedAmountOfMemory) {
  hosts_ = std::string(300'000, 'x');
  job::PodQuery query;
  for (int i = 0; i < 200; ++i) query.names.push_back(StrCat("p", i));
  EXPECT_TRUE(absl::IsInvalidArgument(cluster_.ListPods("ml", query).status()));
  EXPECT_THAT(Named(100), SizeIs(100));
}

}  // namespace
}  // namespace strobe::request
