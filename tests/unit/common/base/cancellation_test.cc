#include "common/base/cancellation.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

namespace strobe {
namespace {

using namespace std::chrono_literals;

TEST(Cancellation, WakesAThreadThatWaits) {
  Cancellation cancellation;
  std::thread other([&] { cancellation.Cancel(); });
  EXPECT_TRUE(cancellation.WaitFor(20s));
  EXPECT_EQ(*cancellation.byte(), 1);
  other.join();
}

TEST(CancellationLink, TheFirstOfTwoRequestsEndsAWait) {
  Cancellation first, second, either;
  const CancellationLink a(first, either), b(second, either);
  EXPECT_FALSE(either.WaitFor(0s));
  std::thread other([&] { second.Cancel(); });
  EXPECT_TRUE(either.WaitFor(20s));
  other.join();
  EXPECT_FALSE(first.cancelled()) << "links have a direction";
}

TEST(CancellationLink, ACancelledRequestCountsAtOnceAndThroughSeveralLinks) {
  Cancellation first, second, third;
  first.Cancel();
  const CancellationLink later(second, third);
  const CancellationLink earlier(first, second);
  EXPECT_TRUE(third.cancelled());
}

TEST(CancellationLink, EndsWithItsLife) {
  Cancellation from, to;
  std::optional<CancellationLink> link(std::in_place, from, to);
  const CancellationLink same(from, to);
  link.reset();
  EXPECT_FALSE(to.cancelled());
  from.Cancel();
  EXPECT_TRUE(to.cancelled()) << "the other link is still there";
}

TEST(CancellationLink, AnEndedLinkCancelsNothing) {
  Cancellation from, to;
  { const CancellationLink link(from, to); }
  from.Cancel();
  EXPECT_FALSE(to.cancelled());
}

TEST(CancellationLink, MayBeMadeWhileItsOriginIsCancelled) {
  for (int i = 0; i < 200; ++i) {
    Cancellation from, to;
    std::thread other([&] { from.Cancel(); });
    {
      const CancellationLink link(from, to);
      other.join();
    }
    EXPECT_TRUE(to.cancelled());
  }
}

}  // namespace
}  // namespace strobe
