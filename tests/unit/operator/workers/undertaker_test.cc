#include "operator/workers/undertaker.h"

#include <gtest/gtest.h>

#include <thread>

namespace strobe {
namespace {

struct Body {
  ~Body() {
    *where = std::this_thread::get_id();
    gone->Notify();
  }
  std::thread::id* where;
  Notification* gone;
};

TEST(Undertaker, DestroysOnItsOwnThread) {
  std::thread::id where;
  Notification gone;
  Undertaker undertaker;
  undertaker.Own(new Body{&where, &gone}).reset();
  gone.Wait();
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(Undertaker, WaitsForWhatItHasTakenOn) {
  std::thread::id where;
  Notification gone;
  std::thread late;
  {
    Undertaker undertaker;
    late = std::thread([body = undertaker.Own(new Body{&where, &gone})]() mutable {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      body.reset();
    });
  }
  EXPECT_TRUE(gone.is_set());
  late.join();
}

}  // namespace
}  // namespace strobe
