#include "collector/store/timed_file_store.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <thread>

#include "common/base/mutex.h"

namespace strobe::storage {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::SizeIs;

// A file system that hangs is tested in tests/integration/test_file_stores.py.
class TimedFileStoreTest : public testing::Test {
 protected:
  TimedFileStoreTest() { root_ = mkdtemp(name_.data()); }
  ~TimedFileStoreTest() override { fs::remove_all(root_); }
  static std::set<fs::path> Threads() {
    std::set<fs::path> threads;
    for (const auto& thread : fs::directory_iterator("/proc/self/task"))
      threads.insert(thread.path());
    return threads;
  }
  // Returns when the threads that the test started have ended, also those that were abandoned.
  void AwaitNewThreads() const {
    for (;; std::this_thread::sleep_for(1ms)) {
      const std::set<fs::path> now = Threads();
      if (std::includes(before_.begin(), before_.end(), now.begin(), now.end())) return;
    }
  }
  StoreLimits Limits(Nanos in) { return {.deadline = SystemClock().MonoNow() + in}; }

  std::string name_ = "/tmp/strobe-timed-XXXXXX";
  std::string root_;
  const std::set<fs::path> before_ = Threads();
};

TEST_F(TimedFileStoreTest, DoesWhatAFileStoreDoes) {
  const auto store = OpenFileStore(root_, Limits(1h));
  ASSERT_NE(dynamic_cast<TimedFileStore*>(store.get()), nullptr);
  ASSERT_TRUE(PutText(*store, "r/x", "text").ok());
  EXPECT_EQ(*GetText(*store, "r/x", 100), "text");
  EXPECT_EQ(store->Stat("r/x")->bytes, 4u);
  EXPECT_THAT(*ListAll(*store, ""), SizeIs(1));
  EXPECT_THAT(*store->ListDirectories(""), testing::ElementsAre("r"));
  EXPECT_TRUE(absl::IsNotFound(store->Stat("nothing").status()));
  EXPECT_TRUE(store->CheckWritable("r/").ok());
  EXPECT_TRUE(absl::IsNotFound(store->CheckWritable("r/x/")));
  const std::array<std::string, 1> keys = {"r/x"};
  EXPECT_TRUE(store->Delete(keys).ok());
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(TimedFileStoreTest, WhoeverSetsNoLimitPaysForNoThread) {
  EXPECT_EQ(dynamic_cast<TimedFileStore*>(OpenFileStore(root_, {}).get()), nullptr);
}

// The second read is slow, so that Put returns, cancelled or timed out, while its thread is still
// reading. That thread must not read the bytes after they are released, nor give its file a name.
class SlowBytes final : public ByteSource {
 public:
  std::uint64_t size() const override { return 4 << 20; }
  absl::Status Read(std::uint64_t, std::span<char> into) const override {
    std::fill(into.begin(), into.end(), 'x');
    if (++reads == 2) {
      if (cancellation != nullptr) cancellation->Cancel();
      std::this_thread::sleep_for(50ms);
    }
    return absl::OkStatus();
  }
  mutable std::atomic<int> reads{0};
  Cancellation* cancellation = nullptr;
};

TEST_F(TimedFileStoreTest, ACancelledPutLeavesNothing) {
  Cancellation cancellation;
  StoreLimits limits = Limits(1h);
  limits.cancellation = &cancellation;
  {
    SlowBytes bytes;
    bytes.cancellation = &cancellation;
    EXPECT_TRUE(absl::IsCancelled(OpenFileStore(root_, limits)->Put("r/x", bytes, {})));
  }
  AwaitNewThreads();
  EXPECT_TRUE(fs::is_empty(root_ + "/r"));
}

TEST_F(TimedFileStoreTest, AnOperationEndsWhenItsTimeIsUp) {
  {
    SlowBytes bytes;
    const absl::Status status = OpenFileStore(root_, Limits(1ms))->Put("r/x", bytes, {});
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("writing r/x"));
  }
  AwaitNewThreads();
  EXPECT_FALSE(fs::exists(root_ + "/r/x"));
}

}  // namespace
}  // namespace strobe::storage
