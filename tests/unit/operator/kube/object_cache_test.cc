#include "operator/kube/object_cache.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"

namespace strobe::kube {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;

Json Request(const std::string& ns, const std::string& name, const std::string& succeeded = "") {
  Json request = {{"metadata", {{"namespace", ns}, {"name", name}}}, {"spec", Json::object()}};
  if (!succeeded.empty())
    request["status"]["conditions"] = {{{"type", "Succeeded"}, {"status", succeeded}}};
  return request;
}
Object Stored(const Json& object) { return std::make_shared<const Json>(object); }

TEST(Trim, LeavesWhatIsUsed) {
  Json object = Json::parse(R"({"metadata": {
      "name": "a", "managedFields": [1, 2], "finalizers": ["x"],
      "labels": {"strobe.dev/schedule": "s", "app": "train"},
      "annotations": {"strobe.dev/requester": "{}",
                      "kubectl.kubernetes.io/last-applied-configuration": "x"},
      "ownerReferences": [{"kind": "Pod", "uid": "1"}, {"kind": "ProfileSchedule", "uid": "2"}]},
      "spec": {"labels": {"app": "train"}}})");
  Trim(object);
  EXPECT_EQ(object, Json::parse(R"({"metadata": {
      "name": "a", "finalizers": ["x"],
      "labels": {"strobe.dev/schedule": "s"}, "annotations": {"strobe.dev/requester": "{}"},
      "ownerReferences": [{"kind": "ProfileSchedule", "uid": "2"}]},
      "spec": {"labels": {"app": "train"}}})"));
}

// A user may name his labels as he likes.
TEST(Trim, LeavesFewOfManyThatLookLikeOurs) {
  Json object = Request("ns", "a");
  for (int i = 0; i < 10'000; ++i) {
    object["metadata"]["labels"][StrCat("strobe.dev/", i)] = "";
    object["metadata"]["ownerReferences"].push_back({{"kind", "ProfileSchedule"}, {"uid", "u"}});
  }
  Trim(object);
  EXPECT_LT(MemoryOf(object), 10'000u);
}

TEST(Trim, OddShapesStay) {
  for (const char* text :
       {"{}", R"({"metadata": 1})", R"({"metadata": {"labels": [], "annotations": 1,
                           "ownerReferences": {}}})"}) {
    Json object = Json::parse(text);
    Trim(object);
    EXPECT_EQ(object, Json::parse(text));
  }
}

TEST(ObjectCache, KnowsWhatTheObjectsOfANamespaceTake) {
  ObjectCache cache;
  cache.ReplaceAll({Stored(Request("a", "1")), Stored(Request("a", "2", "True")),
                    Stored(Request("b", "1", "Unknown"))});
  EXPECT_EQ(cache.UseOf("a").open, 1u);
  EXPECT_EQ(cache.UseOf("b").open, 1u);
  EXPECT_EQ(cache.UseOf("c").bytes, 0u);
  Json run = Request("a", "3");
  run["metadata"]["labels"]["strobe.dev/schedule"] = "s";
  cache.Put(Stored(run));
  EXPECT_EQ(cache.UseOf("a").open, 2u);
  EXPECT_EQ(cache.UseOf("a").automatic, 1u);
  Json stamped = run;
  stamped["metadata"]["annotations"]["strobe.dev/requester"] =
      R"({"username":"x\",\"creator\":\"","seal":"s"})";
  cache.Put(Stored(stamped));
  EXPECT_EQ(cache.UseOf("a").automatic, 0u) << "a user has set the label";
  stamped["metadata"]["annotations"]["strobe.dev/requester"] =
      R"({"creator":"uid","seal":"s","username":"x"})";
  cache.Put(Stored(stamped));
  EXPECT_EQ(cache.UseOf("a").automatic, 1u);
  EXPECT_EQ(cache.all().open, 3u);
  EXPECT_EQ(cache.all().bytes, cache.UseOf("a").bytes + cache.UseOf("b").bytes);
  run["status"]["conditions"] = {{{"type", "Succeeded"}, {"status", "False"}}};
  cache.Put(Stored(run));
  EXPECT_EQ(cache.UseOf("a").automatic, 0u);
  for (const std::string& key : cache.Keys()) cache.Remove(key);
  cache.Remove("a/1");
  EXPECT_EQ(cache.all().bytes, 0u);
  EXPECT_EQ(cache.UseOf("a").bytes, 0u);
  EXPECT_EQ(cache.all().open, 0u);
}

}  // namespace
}  // namespace strobe::kube
