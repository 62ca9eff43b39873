#include "operator/access/capture_history.h"

#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "tests/fakes/scripted_transport.h"

namespace strobe::access {
namespace {

using namespace std::chrono_literals;

class CaptureHistoryTest : public testing::Test {
 protected:
  CaptureHistoryTest() {
    transport_->OnUnary(
        [this](const kube::HttpRequest& request) -> absl::StatusOr<kube::HttpResponse> {
          MutexLock lock(&mutex_);
          if (request.method == "GET") {
            if (unreadable_) return absl::UnavailableError("cut");
            return kube::HttpResponse{200, map_.dump(), {}};
          }
          ++writes_;
          map_.merge_patch(kube::Json::parse(request.body));
          return kube::HttpResponse{200, map_.dump(), {}};
        });
  }
  // The namespaces whose ends are stored.
  std::vector<std::string> Stored() {
    MutexLock lock(&mutex_);
    std::vector<std::string> names;
    const kube::Json ends = kube::Json::parse(map_["data"].value("last-ends.json", "{}"));
    for (const auto& [name, end] : ends.items()) names.push_back(name);
    return names;
  }

  SystemClock clock_;
  Mutex mutex_;
  kube::Json map_ ABSL_GUARDED_BY(mutex_) = {{"data", kube::Json::object()}};
  int writes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool unreadable_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<kube::ScriptedTransport> transport_ = std::make_shared<kube::ScriptedTransport>();
  kube::Client client_{clock_, transport_};
  const CaptureHistory::Options options_{"strobe-system", "history"};
};

// Regression: what the leader before had stored was gone with the first end.
TEST_F(CaptureHistoryTest, AFirstEndKeepsThoseThatAnEarlierOperatorStored) {
  CaptureHistory(clock_, client_, options_).NoteEnd("first", clock_.WallNow(), 1h);
  CaptureHistory second(clock_, client_, options_);
  second.NoteEnd("second", clock_.WallNow(), 1h);
  EXPECT_THAT(Stored(), testing::ElementsAre("first", "second"));
  EXPECT_TRUE(second.LastEnd("first", 1s).value().has_value());
}

TEST_F(CaptureHistoryTest, NothingIsReplacedByWhatCouldNotBeRead) {
  CaptureHistory(clock_, client_, options_).NoteEnd("first", clock_.WallNow(), 1h);
  CaptureHistory second(clock_, client_, options_);
  {
    MutexLock lock(&mutex_);
    unreadable_ = true;
  }
  second.NoteEnd("second", clock_.WallNow(), 1h);
  EXPECT_THAT(Stored(), testing::ElementsAre("first"));
  {
    MutexLock lock(&mutex_);
    unreadable_ = false;
  }
  second.NoteEnd("third", clock_.WallNow(), 1h);
  EXPECT_THAT(Stored(), testing::ElementsAre("first", "second", "third"));
}

// Regression: of two writes at a time, the older one could come last.
TEST_F(CaptureHistoryTest, EndsAtTheSameTimeAreAllStored) {
  CaptureHistory history(clock_, client_, options_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i)
    threads.emplace_back(
        [&, i] { history.NoteEnd("n" + std::to_string(i), clock_.WallNow(), 1h); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Stored().size(), 16u);
  MutexLock lock(&mutex_);
  EXPECT_LE(writes_, 16);
}

}  // namespace
}  // namespace strobe::access
