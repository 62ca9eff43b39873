#include "collector/storage/cloud_store.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "common/base/mutex.h"

namespace {

// A resolver of names whose servers do not answer. It cannot be cancelled.
struct SilentResolver {
  std::atomic<bool> on{false};
  strobe::Notification asked, end, ended;
};
SilentResolver g_silent_resolver;

}  // namespace

// Replaces the function of the C library in this program.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  static const auto real =
      reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (!g_silent_resolver.on) return real(node, service, hints, found);
  g_silent_resolver.asked.Notify();
  g_silent_resolver.end.WaitFor(std::chrono::seconds(20));
  g_silent_resolver.ended.Notify();
  return EAI_AGAIN;
}

namespace strobe {
namespace {

// Regression: a cancelled call returned at once, but closing the store waited for the resolver.
TEST(CloudStore, IsClosedWithoutWaitingForTheResolver) {
  g_silent_resolver.on = true;
  Cancellation cancellation;
  auto store = storage::OpenCloudStore(*Logdir::Parse("s3://bucket/logs"),
                                       {{"aws_endpoint", "http://store.invalid:1"},
                                        {"aws_region", "none"},
                                        {"aws_skip_signature", "true"},
                                        {"allow_http", "true"}},
                                       {.cancellation = &cancellation});
  ASSERT_TRUE(store.ok()) << store.status();
  std::thread user([&] {
    g_silent_resolver.asked.WaitFor(std::chrono::seconds(20));
    cancellation.Cancel();
  });
  EXPECT_TRUE(absl::IsCancelled((*store)->Stat("x").status()));
  store->reset();
  EXPECT_TRUE(g_silent_resolver.asked.is_set());
  EXPECT_FALSE(g_silent_resolver.ended.is_set());
  user.join();
  g_silent_resolver.end.Notify();
  g_silent_resolver.ended.WaitFor(std::chrono::seconds(20));
  g_silent_resolver.on = false;
}

}  // namespace
}  // namespace strobe
