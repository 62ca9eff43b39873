#include "operator/kube/reflector.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "common/base/mutex.h"
#include "tests/fakes/scripted_transport.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::kube {
namespace {

using testing::ElementsAre;

TEST(LineSplitter, GivesTheSameLinesHoweverTheBytesAreCut) {
  const std::string bytes = "{\"a\":\"\xc3\xa4\"}\n\n{\"b\":2}\r\n{\"c\":3}\n";
  std::vector<std::string> whole;
  LineSplitter once;
  once.Feed(bytes, [&](std::string_view line) { whole.emplace_back(line); });
  EXPECT_EQ(whole.size(), 3u);
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    std::vector<std::string> lines;
    LineSplitter splitter;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      EXPECT_TRUE(splitter.Feed(std::string_view(bytes).substr(at, size),
                                [&](std::string_view line) { lines.emplace_back(line); }));
    }
    EXPECT_EQ(lines, whole) << size;
  }
}

TEST(LineSplitter, GivesUpOnEndlessLines) {
  LineSplitter splitter(100);
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view line) { lines.emplace_back(line); };
  EXPECT_TRUE(splitter.Feed(std::string(100, 'x') + "\n", keep));
  EXPECT_FALSE(splitter.Feed(std::string(60, 'x'), keep) &&
               splitter.Feed(std::string(60, 'x'), keep));
  EXPECT_EQ(lines.size(), 1u);
}

using namespace std::chrono_literals;
using testing::HasSubstr;

Json Item(const std::string& name, const std::string& version) {
  return {{"metadata", {{"name", name}, {"namespace", "ns"}, {"resourceVersion", version}}}};
}
std::string WatchEvent(const std::string& type, const Json& object) {
  return Json{{"type", type}, {"object", object}}.dump() + "\n";
}
HttpResponse List(const std::string& version, std::vector<Json> items) {
  return {200, Json{{"metadata", {{"resourceVersion", version}}}, {"items", items}}.dump(),
          std::nullopt};
}

class ReflectorTest : public testing::Test {
 protected:
  void Run() {
    reflector_.emplace(clock_, client_, ReflectorOptions{"/things", 290s}, cache_,
                       [this](const std::string& key) {
                         MutexLock lock(&mutex_);
                         changed_.push_back(key);
                       });
    reflector_->Start();
  }
  bool Eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 4000 && !condition(); ++i) std::this_thread::sleep_for(5ms);
    return condition();
  }
  std::vector<std::string> Paths() {
    std::vector<std::string> paths;
    for (const HttpRequest& request : transport_->requests()) paths.push_back(request.path);
    return paths;
  }

  std::ptrdiff_t TimesSent(const std::string& key) {
    MutexLock lock(&mutex_);
    return std::count(changed_.begin(), changed_.end(), key);
  }

  SystemClock clock_;
  std::atomic<int> lists_{0};
  std::shared_ptr<ScriptedTransport> transport_ = std::make_shared<ScriptedTransport>();
  Client client_{clock_, transport_};
  ObjectCache cache_;
  Mutex mutex_;
  std::vector<std::string> changed_;
  std::optional<Reflector> reflector_;
};

TEST_F(ReflectorTest, ListsOnceAndFollowsTheWatch) {
  transport_->OnUnary([](const HttpRequest&) {
    return List("10", {Item("a", "5"), Item("b", "6")});
  });
  transport_->AddStream(
      {WatchEvent("MODIFIED", Item("a", "11")),
       WatchEvent("DELETED", Item("b", "12")) + WatchEvent("ADDED", Item("c", "13")),
       WatchEvent("BOOKMARK", {{"metadata", {{"resourceVersion", "20"}}}})});
  Run();
  ASSERT_TRUE(Eventually([&] { return Paths().size() >= 3; }));
  EXPECT_THAT(cache_.Keys(), ElementsAre("ns/a", "ns/c"));
  EXPECT_THAT(Paths()[0], HasSubstr("resourceVersion=0"));
  EXPECT_THAT(Paths()[1], HasSubstr("resourceVersion=10"));
  EXPECT_THAT(Paths()[2], HasSubstr("resourceVersion=20"))
      << "goes on from the bookmark, without a list";
}

TEST_F(ReflectorTest, AnExpiredVersionRelistsWithoutEmptyingTheCache) {
  transport_->OnUnary([this](const HttpRequest&) {
    return lists_++ == 0 ? List("10", {Item("a", "5")}) : List("30", {Item("b", "25")});
  });
  transport_->AddStream(
      {WatchEvent("ERROR", {{"code", 410}, {"reason", "Expired"}, {"message", "too old"}})});
  Run();
  bool emptied = false;
  ASSERT_TRUE(Eventually([&] { return cache_.Get("ns/a") != nullptr; }));
  ASSERT_TRUE(Eventually([&] {
    emptied = emptied || cache_.size() == 0;
    return lists_ == 2 && cache_.Get("ns/b") != nullptr;
  }));
  EXPECT_FALSE(emptied);
  EXPECT_EQ(cache_.Get("ns/a"), nullptr) << "deleted while nobody watched";
  // The callback runs after the cache holds the new list, so that it can read the list.
  EXPECT_TRUE(Eventually([this] { return TimesSent("ns/a") == 2; })) << "and somebody was told";
}

TEST_F(ReflectorTest, RefusedWatchesDoNotRelist) {
  transport_->OnUnary([](const HttpRequest&) { return List("10", {}); });
  transport_->AddStream({}, HttpResponse{429, "{}", std::nullopt});
  transport_->AddStream({}, absl::UnavailableError("connection refused"));
  Run();
  ASSERT_TRUE(Eventually([&] { return reflector_->stats().watches == 3; }));
  EXPECT_EQ(reflector_->stats().lists, 1u);
}

TEST_F(ReflectorTest, AServerThatComesBackWithAnOlderStateIsListedAnew) {
  transport_->OnUnary([this](const HttpRequest&) {
    return lists_++ == 0 ? List("1000", {Item("a", "900")}) : List("30", {Item("b", "25")});
  });
  transport_->AddStream({}, absl::UnavailableError("connection reset"));
  Run();
  // The server would accept a watch from version 1000, but send nothing until it reaches that
  // version.
  ASSERT_TRUE(Eventually([&] { return cache_.Get("ns/b") != nullptr; }));
  EXPECT_EQ(cache_.Get("ns/a"), nullptr);
}

// A connection that was dropped on the way: after a bookmark, the first watch sends nothing until
// the limit on silence has passed.
class DroppedConnection final : public Transport {
 public:
  explicit DroppedConnection(SimulatedTime& time) : time_(time) {}

  absl::StatusOr<HttpResponse> Unary(const HttpRequest&) override {
    return List(asked_++ == 0 ? "10" : "12", {Item("a", "5")});
  }
  absl::StatusOr<HttpResponse> Stream(const HttpRequest& request, const Stop& stop,
                                      const std::function<bool(std::string_view)>& chunk) override {
    if (Add(request) > 1) {
      stop.WaitFor(1h);
      return absl::CancelledError("stopped");
    }
    chunk(WatchEvent("BOOKMARK", {{"metadata", {{"resourceVersion", "12"}}}}));
    time_.Advance(request.timeout);
    return absl::DeadlineExceededError("nothing came");
  }
  std::vector<HttpRequest> watches() {
    MutexLock lock(&mutex_);
    return watches_;
  }

 private:
  std::size_t Add(const HttpRequest& request) {
    MutexLock lock(&mutex_);
    watches_.push_back(request);
    return watches_.size();
  }

  SimulatedTime& time_;
  int asked_ = 0;
  Mutex mutex_;
  std::vector<HttpRequest> watches_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(ReflectorTest, ASilentWatchBeginsAnewSoonWithoutAListOrAFailure) {
  SimulatedTime time;
  const auto dropped = std::make_shared<DroppedConnection>(time);
  Client client(time, dropped);
  Reflector reflector(time, client, {"/things", 290s}, cache_, [](const std::string&) {});
  reflector.Start();
  ASSERT_TRUE(Eventually([&] { return dropped->watches().size() == 2; }));
  EXPECT_LE(dropped->watches()[0].timeout, 95s) << "a bookmark comes each minute";
  EXPECT_THAT(dropped->watches()[0].path, HasSubstr("allowWatchBookmarks=true&timeoutSeconds=290"));
  EXPECT_THAT(dropped->watches()[1].path, HasSubstr("resourceVersion=12"));
  EXPECT_EQ(reflector.stats().lists, 1u);
  EXPECT_EQ(reflector.stats().watches, 2u);
  EXPECT_EQ(reflector.stats().silences, 1u);
  EXPECT_EQ(reflector.stats().failures, 0u);
}

TEST_F(ReflectorTest, AShortWatchIsSilentForItsOwnTimeOnly) {
  SimulatedTime time;
  const auto dropped = std::make_shared<DroppedConnection>(time);
  Client client(time, dropped);
  Reflector reflector(time, client, {"/things", 4s}, cache_, [](const std::string&) {});
  reflector.Start();
  ASSERT_TRUE(Eventually([&] { return dropped->watches().size() == 2; }));
  EXPECT_EQ(dropped->watches()[0].timeout, 9s);
}

TEST_F(ReflectorTest, BadEventsAreCountedAndPassedOver) {
  transport_->OnUnary([](const HttpRequest&) { return List("10", {}); });
  transport_->AddStream({"not json\n", WatchEvent("STRANGE", Item("x", "11")),
                         "{\"type\":\"ADDED\",\"object\":{\"metadata\":7}}\n",
                         WatchEvent("ADDED", Item("a", "12"))});
  Run();
  ASSERT_TRUE(Eventually([&] { return cache_.Get("ns/a") != nullptr; }));
  EXPECT_EQ(reflector_->stats().bad_events, 3u);
}

TEST_F(ReflectorTest, TheCacheHasNothingThatNobodyUses) {
  Json large = Item("a", "5");
  for (int i = 0; i < 20'000; ++i) large["metadata"]["labels"][std::to_string(i)] = "";
  large["metadata"]["managedFields"] = Json::array({{{"f:labels", large["metadata"]["labels"]}}});
  transport_->OnUnary([large](const HttpRequest&) { return List("10", {large}); });
  large["metadata"]["name"] = "b";
  transport_->AddStream({WatchEvent("ADDED", large)});
  Run();
  ASSERT_TRUE(Eventually([&] { return cache_.Get("ns/b") != nullptr; }));
  for (const char* key : {"ns/a", "ns/b"}) {
    EXPECT_FALSE(cache_.Get(key)->at("metadata").contains("managedFields"));
    EXPECT_TRUE(cache_.Get(key)->at("metadata").at("labels").empty());
  }
  EXPECT_LT(cache_.UseOf("ns").bytes, 4000u);
}

TEST(ToStatus, SpeaksTheServersWords) {
  const absl::Status conflict = ToStatus(
      {409, R"({"reason":"Conflict","message":"the object has been modified"})", std::nullopt});
  EXPECT_TRUE(absl::IsAborted(conflict));
  EXPECT_EQ(conflict.message(), "the object has been modified");
  EXPECT_TRUE(
      absl::IsAlreadyExists(ToStatus({409, R"({"reason":"AlreadyExists"})", std::nullopt})));
  EXPECT_TRUE(absl::IsUnavailable(ToStatus({503, "<html>", std::nullopt})));
  EXPECT_TRUE(ToStatus({201, "", std::nullopt}).ok());
}

}  // namespace
}  // namespace strobe::kube
