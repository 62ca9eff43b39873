#include "common/base/guard.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "absl/status/statusor.h"

namespace strobe {
namespace {

std::uint64_t Count(const std::string& where) {
  const auto counts = CaughtExceptions();
  const auto found = counts.find(where);
  return found == counts.end() ? 0 : found->second;
}

TEST(RunGuarded, ReturnsWhatTheWorkReturns) {
  EXPECT_TRUE(RunGuarded("test.fine", [] {}).ok());
  EXPECT_EQ(*RunGuarded("test.fine", [] { return absl::StatusOr<int>(7); }), 7);
  EXPECT_TRUE(absl::IsNotFound(RunGuarded("test.fine", [] { return absl::NotFoundError(""); })));
  EXPECT_EQ(Count("test.fine"), 0u);
}

TEST(RunGuarded, TurnsExceptionsIntoErrorsAndCountsThem) {
  const absl::Status status =
      RunGuarded("test.throws", [] { throw std::runtime_error("\xff is no UTF-8"); });
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_NE(status.message().find("is no UTF-8"), absl::string_view::npos);
  EXPECT_FALSE(RunGuarded("test.throws", []() -> absl::StatusOr<int> { throw 5; }).ok());
  EXPECT_EQ(Count("test.throws"), 2u);
}

TEST(RunThread, GoesOnAfterAnException) {
  int turns = 0;
  RunThread("test.loop", [&] {
    if (++turns < 3) throw std::bad_alloc();
  });
  EXPECT_EQ(turns, 3);
  EXPECT_EQ(Count("test.loop"), 2u);
}

}  // namespace
}  // namespace strobe
