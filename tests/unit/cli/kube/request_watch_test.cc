#include "cli/kube/request_watch.h"

#include <gmock/gmock.h>

#include "tests/fakes/fake_kubectl.h"

namespace strobe::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::string Event(const std::string& type, const std::string& uid, int attempt) {
  return nlohmann::json{{"type", type},
                        {"object",
                         {{"metadata", {{"name", "look"}, {"namespace", "ml"}, {"uid", uid}}},
                          {"status", {{"attempt", attempt}}}}}}
             .dump() +
         "\n";
}

class WatchRequestTest : public testing::Test {
 protected:
  absl::Status Watch(int until) {
    return WatchRequest(kubectl_, "look", "u1",
                        {.seen =
                             [&, until](const objects::ProfileRequest& request) {
                               seen_.push_back(request.status.attempt);
                               return request.status.attempt < until;
                             },
                         .tick = [] { return true; },
                         .pause = [&] { return ++pauses_ < 100; }});
  }
  FakeKubectl kubectl_;
  std::vector<int> seen_;
  int pauses_ = 0;
};

TEST_F(WatchRequestTest, GoesOnWhereKubectlEnds) {
  kubectl_.streams = {{0, Event("ADDED", "u1", 1), ""},
                      {1, "no JSON\n", "Unable to connect to the server"},
                      {0, Event("ADDED", "u1", 2) + Event("MODIFIED", "u1", 3), ""}};
  EXPECT_TRUE(Watch(3).ok());
  EXPECT_THAT(seen_, ElementsAre(1, 2, 3));
  EXPECT_EQ(pauses_, 2);
}

TEST_F(WatchRequestTest, ADeletedRequestEndsIt) {
  kubectl_.streams = {{0, Event("ADDED", "u1", 1) + Event("DELETED", "u1", 1), ""}};
  EXPECT_TRUE(absl::IsNotFound(Watch(9)));
  kubectl_.streams = {{0, Event("ADDED", "another", 1), ""}};
  EXPECT_TRUE(absl::IsNotFound(Watch(9))) << "created again under the same name";
  kubectl_.streams = {{1, "", "Error from server (NotFound): profilerequests \"look\" not found"}};
  EXPECT_TRUE(absl::IsNotFound(Watch(9)));
}

TEST_F(WatchRequestTest, GivesUpInTheEnd) {
  EXPECT_TRUE(absl::IsUnavailable(Watch(9)));
  EXPECT_LT(pauses_, 50);
  kubectl_.streams = {{1, "", "Error from server (Forbidden): no"}};
  EXPECT_TRUE(absl::IsPermissionDenied(Watch(9)));
}

TEST(ParseJsonObjects, AreReadOneByOne) {
  EXPECT_EQ(ParseJsonObjects("{\n  \"a\": {\n  }\n}\n{\n  \"b\": 1\n}\n{\n!\n}\n").dump(),
            R"([{"a":{}},{"b":1}])");
}

TEST(ListRequests, LeavesOutWhatCannotBeRead) {
  FakeKubectl kubectl;
  EXPECT_TRUE(absl::IsPermissionDenied(ListRequests(kubectl, false).status()));
  kubectl.answers["get profilerequests.strobe.dev --output=json --all-namespaces"] =
      R"({"items": [{"metadata": {"name": "a"}}, {"metadata": 5}]})";
  EXPECT_THAT(*ListRequests(kubectl, true), SizeIs(1));
}

}  // namespace
}  // namespace strobe::cluster
