#include "capture/worker/deferred_deleter.h"

#include <gtest/gtest.h>

#include <thread>

namespace strobe::capture {
namespace {

struct Object {
  ~Object() {
    *where = std::this_thread::get_id();
    gone->Notify();
  }
  std::thread::id* where;
  Notification* gone;
};

TEST(DeferredDeleter, DeletesOnItsOwnThread) {
  std::thread::id where;
  Notification gone;
  DeferredDeleter deleter;
  deleter.Own(new Object{&where, &gone}).reset();
  gone.Wait();
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(DeferredDeleter, WaitsForWhatWasAnnounced) {
  std::thread::id where;
  Notification gone;
  std::thread late;
  {
    DeferredDeleter deleter;
    late = std::thread([object = deleter.Own(new Object{&where, &gone})]() mutable {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      object.reset();
    });
  }
  EXPECT_TRUE(gone.is_set());
  late.join();
}

}  // namespace
}  // namespace strobe::capture
