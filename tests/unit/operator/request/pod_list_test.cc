#include "operator/request/pod_list.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "tests/fakes/scripted_transport.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::request {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::string Items(const std::string& items) {
  return StrCat(R"({"metadata": {}, "items": [)", items, "]}");
}

std::string PodWithout(const std::string& ns, const std::string& more = "") {
  return StrCat(R"({"metadata": {"name": "p", "namespace": ")", ns, R"("}, "spec": {)", more,
                R"(}, "status": {"phase": "Running"}})");
}

std::string PodWithSidecar(const std::string& ns) {
  return PodWithout(ns, R"("initContainers": [{"name": "strobe-sidecar", "restartPolicy": "Always",
                           "ports": [{"name": "strobe", "containerPort": 9470}]}])");
}

class CountUninjectedPodsTest : public testing::Test {
 protected:
  CountUninjectedPodsTest() {
    transport_->OnUnary(
        [this](const kube::HttpRequest& request) -> absl::StatusOr<kube::HttpResponse> {
          if (const auto found = answers_.find(request.path); found != answers_.end())
            return kube::HttpResponse{200, found->second, {}};
          if (request.path.starts_with("/api/v1/namespaces") &&
              !strobe::Contains(request.path, "/pods"))
            return kube::HttpResponse{namespaces_status_, Items(""), {}};
          return kube::HttpResponse{200, Items(""), {}};
        });
  }
  // What the API server answers for the pods that `selector` selects, in `ns` or everywhere.
  void Pods(const std::string& ns, const std::string& selector, const std::string& items) {
    const std::string base =
        ns.empty() ? "/api/v1/pods" : StrCat("/api/v1/namespaces/", ns, "/pods");
    answers_[StrCat(base, "?limit=500&labelSelector=", UrlEncode(selector))] = Items(items);
  }
  void Labelled(const std::string& items, const std::string& page = "",
                const std::string& next = "") {
    answers_[StrCat(
        "/api/v1/namespaces?limit=500&labelSelector=", UrlEncode("strobe.dev/inject=true"), page)] =
        StrCat(R"({"metadata": {"continue": ")", next, R"("}, "items": [)", items, "]}");
  }
  std::map<std::string, int> Count(const std::string& ns = "") {
    const auto counts = CountUninjectedPods(client_, ns);
    EXPECT_TRUE(counts.ok()) << counts.status();
    return counts.ok() ? *counts : std::map<std::string, int>{{"failed", -1}};
  }

  SimulatedTime time_;
  std::shared_ptr<kube::ScriptedTransport> transport_ = std::make_shared<kube::ScriptedTransport>();
  kube::Client client_{time_, transport_};
  int namespaces_status_ = 200;
  std::map<std::string, std::string> answers_;  // By path.
};

constexpr char kOwnLabel[] = "strobe.dev/inject=true";
constexpr char kNoOwnLabel[] = "strobe.dev/inject notin (true,false)";

TEST_F(CountUninjectedPodsTest, CountsPodsByTheirOwnLabel) {
  Pods("", kOwnLabel, StrCat(PodWithout("ml"), ",", PodWithSidecar("ml"), ",", PodWithout("web")));
  EXPECT_THAT(Count(), ElementsAre(Pair("ml", 1), Pair("web", 1)));
}

// A pod of a labelled namespace that was created while the webhook was away used to be counted
// nowhere.
TEST_F(CountUninjectedPodsTest, CountsPodsByTheLabelOfTheirNamespace) {
  Labelled(R"({"metadata": {"name": "ml"}})", "", "more");
  Labelled(R"({"metadata": {"name": "nlp"}})", "&continue=more");
  Pods("", kOwnLabel, PodWithout("ml"));
  Pods("ml", kNoOwnLabel, StrCat(PodWithout("ml"), ",", PodWithSidecar("ml")));
  Pods("nlp", kNoOwnLabel, PodWithout("nlp"));
  EXPECT_THAT(Count(), ElementsAre(Pair("ml", 2), Pair("nlp", 1)));
}

TEST_F(CountUninjectedPodsTest, AsksOnlyForTheWatchedNamespace) {
  answers_["/api/v1/namespaces/ml"] = R"({"metadata": {"labels": {"strobe.dev/inject": "true"}}})";
  answers_["/api/v1/namespaces/web"] = R"({"metadata": {"labels": {"team": "web"}}})";
  Pods("ml", kNoOwnLabel, PodWithout("ml"));
  Pods("web", kNoOwnLabel, PodWithout("web"));
  EXPECT_THAT(Count("ml"), ElementsAre(Pair("ml", 1)));
  EXPECT_THAT(Count("web"), IsEmpty());
  for (const kube::HttpRequest& request : transport_->requests())
    EXPECT_TRUE(request.path.starts_with("/api/v1/namespaces/")) << request.path;
}

// The role may be one that somebody wrote for an older operator.
TEST_F(CountUninjectedPodsTest, WithoutTheRightToListNamespacesOwnLabelsCount) {
  namespaces_status_ = 403;
  Pods("", kOwnLabel, PodWithout("ml"));
  EXPECT_THAT(Count(), ElementsAre(Pair("ml", 1)));
}

// The metric then stays as it is, because a part of the pods would look like an improvement.
TEST_F(CountUninjectedPodsTest, AFailureOfTheApiServerCountsNothing) {
  namespaces_status_ = 500;
  Pods("", kOwnLabel, PodWithout("ml"));
  EXPECT_FALSE(CountUninjectedPods(client_, "").ok());
}

TEST_F(CountUninjectedPodsTest, LeavesOutPodsThatAreNeverInjectedOrHaveEnded) {
  Labelled(R"({"metadata": {"name": "ml"}})");
  Pods("ml", kNoOwnLabel,
       StrCat(PodWithout("ml", R"("os": {"name": "windows"})"),
              R"(,{"metadata": {"namespace": "ml",
                   "annotations": {"kubernetes.io/config.mirror": "x"}}})",
              R"(,{"metadata": {"namespace": "ml"}, "status": {"phase": "Succeeded"}})"));
  EXPECT_THAT(Count(), IsEmpty());
}

}  // namespace
}  // namespace strobe::request
