#include "common/memory/fault_range.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

namespace strobe {
namespace {

using State = FaultRange::State;

class FaultRangeTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pipe(pipe_.data()), 0);
    range_ = *FaultRange::Reserve(3 * block_ + 1, block_, pipe_[1]);
  }
  void TearDown() override {
    range_.reset();
    close(pipe_[0]);
    close(pipe_[1]);
  }
  // Waits for the next request, which is the block's number.
  std::uint32_t NextRequest() {
    FaultRange::Request request;
    EXPECT_EQ(read(pipe_[0], &request, sizeof request), static_cast<ssize_t>(sizeof request));
    EXPECT_EQ(request.range, range_->number());
    return request.block;
  }
  void Put(std::uint32_t block, char fill, bool readable = true) {
    char* const memory = FaultRange::NewBlock(block_);
    std::memset(memory, fill, block_);
    ASSERT_TRUE(range_->Map(block, memory, readable));
  }
  char ByteAt(std::size_t offset) const {
    return *static_cast<const volatile char*>(range_->bytes().data() + offset);
  }

  const std::size_t block_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::array<int, 2> pipe_{};
  std::unique_ptr<FaultRange> range_;
};

TEST_F(FaultRangeTest, AReaderWaitsForItsBlockOnly) {
  EXPECT_EQ(range_->blocks(), 4u);
  EXPECT_EQ(range_->bytes().size(), 3 * block_ + 1);
  Put(0, 'a');
  EXPECT_EQ(ByteAt(block_ - 1), 'a') << "nothing is asked";
  char seen = 0;
  std::thread reader([&] { seen = ByteAt(3 * block_); });
  EXPECT_EQ(NextRequest(), 3u);
  Put(3, 'd');
  reader.join();
  EXPECT_EQ(seen, 'd');
}

TEST_F(FaultRangeTest, AHiddenBlockAsksAgainAndADroppedOneIsReadAnew) {
  Put(1, 'b', /*readable=*/false);
  EXPECT_EQ(range_->state(1), State::kHidden);
  char seen = 0;
  std::thread first([&] { seen = ByteAt(block_); });
  EXPECT_EQ(NextRequest(), 1u);
  range_->Show(1);
  first.join();
  EXPECT_EQ(seen, 'b');

  range_->Hide(1);
  std::thread second([&] { seen = ByteAt(block_); });
  EXPECT_EQ(NextRequest(), 1u);
  range_->Drop(1);  // While the reader waits.
  Put(1, 'B');
  second.join();
  EXPECT_EQ(seen, 'B');
}

TEST_F(FaultRangeTest, ZerosTakeThePlaceOfWhatCannotBeHad) {
  range_->PlaceZeros(2);
  EXPECT_EQ(ByteAt(2 * block_ + 5), 0);
  EXPECT_EQ(range_->state(2), State::kReadable);
}

TEST_F(FaultRangeTest, ManyReadersOfABlockAreAllWokenAndAskAtMostOnceEach) {
  std::vector<std::thread> readers;
  for (int i = 0; i < 8; ++i) readers.emplace_back([this] { EXPECT_EQ(ByteAt(0), 'x'); });
  EXPECT_EQ(NextRequest(), 0u);
  Put(0, 'x');
  for (std::thread& reader : readers) reader.join();
}

TEST_F(FaultRangeTest, SystemCallsFailInsteadOfWaiting) {
  EXPECT_LT(write(pipe_[1], range_->bytes().data(), 1), 0);
  EXPECT_EQ(errno, EFAULT);
}

// Regression: a run of more workers than 4,096 in a store could not be opened.
TEST_F(FaultRangeTest, ThereMayBeAsManyAsMappedFiles) {
  std::vector<std::unique_ptr<FaultRange>> ranges;
  for (int i = 0; i < 10'000; ++i) {
    absl::StatusOr<std::unique_ptr<FaultRange>> range =
        FaultRange::Reserve(block_, block_, pipe_[1]);
    ASSERT_TRUE(range.ok()) << i << ": " << range.status();
    ranges.push_back(*std::move(range));
  }
  range_ = std::move(ranges.back());
  std::thread reader([&] { EXPECT_EQ(ByteAt(0), 'z'); });
  EXPECT_EQ(NextRequest(), 0u);
  Put(0, 'z');
  reader.join();
}

TEST_F(FaultRangeTest, RangesAreUsedAgain) {
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(FaultRange::Reserve(1, block_, pipe_[1]).ok());
  EXPECT_EQ((*FaultRange::Reserve(0, block_, pipe_[1]))->bytes(), "");
  EXPECT_FALSE(FaultRange::Reserve(std::size_t{1} << 62, block_, pipe_[1]).ok());
}

using FaultRangeDeathTest = FaultRangeTest;

TEST_F(FaultRangeDeathTest, OtherFaultsEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fails = [](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; };
  EXPECT_EXIT(
      {
        *reinterpret_cast<volatile char*>(8) = 1;
        _exit(0);
      },
      fails, "");
  EXPECT_EXIT(
      {
        Put(0, 'x');
        *const_cast<volatile char*>(range_->bytes().data()) = 1;  // Writing.
        _exit(0);
      },
      fails, "");
}

}  // namespace
}  // namespace strobe
