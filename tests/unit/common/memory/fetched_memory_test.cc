#include "common/memory/fetched_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/base/strings.h"

namespace strobe {
namespace {

constexpr std::size_t kBlock = 64 << 10;

// The byte at `offset` of what the tests fetch.
char ByteOf(std::uint64_t offset) {
  return static_cast<char>((offset * 2654435761u) >> 7 ^ offset / kBlock);
}

// A store whose calls are counted and can fail or wait.
struct Stored {
  std::atomic<int> fetches{0};
  std::atomic<std::uint64_t> fails_from{~std::uint64_t{0}};
  std::atomic<bool> waits{false};

  Fetch AsFetch() {
    return [this](std::uint64_t offset, std::span<char> into) -> absl::Status {
      ++fetches;
      while (waits) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (offset >= fails_from) return absl::PermissionDeniedError(StrCat("denied at ", offset));
      for (std::size_t i = 0; i < into.size(); ++i) into[i] = ByteOf(offset + i);
      return absl::OkStatus();
    };
  }
};

std::shared_ptr<FetchPool> Pool(std::size_t blocks = 16, std::size_t ahead = 2) {
  return *FetchPool::Create({.block = kBlock, .blocks = blocks, .threads = 3, .ahead = ahead});
}

std::uint64_t Differences(std::string_view bytes, std::uint64_t begin, std::uint64_t end) {
  std::uint64_t differences = 0;
  for (std::uint64_t i = begin; i < end; ++i) differences += bytes[i] != ByteOf(i);
  return differences;
}

// How much of the range is in memory, as the kernel tells.
std::size_t Resident() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  unsigned long size = 0, resident = 0;
  EXPECT_EQ(std::fscanf(file, "%lu %lu", &size, &resident), 2);
  std::fclose(file);
  return resident * 4096;
}

TEST(FetchedMemory, ReadsInOrderFetchEachBlockOnce) {
  Stored stored;
  const auto pool = Pool();
  const auto memory = FetchedMemory::Map(pool, 100 * kBlock + 17, stored.AsFetch());
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(stored.fetches, 0) << "before anything is read";
  EXPECT_EQ(Differences(memory->bytes(), 0, memory->bytes().size()), 0u);
  EXPECT_EQ(stored.fetches, 101);
  EXPECT_TRUE(memory->Check().ok());
}

TEST(FetchedMemory, OnlyABoundedPartIsInMemory) {
  Stored stored;
  const auto pool = *FetchPool::Create({.block = 1 << 20, .blocks = 12, .threads = 3, .ahead = 2});
  const auto memory = FetchedMemory::Map(pool, 100ull << 20, stored.AsFetch());
  const std::size_t before = Resident();
  std::size_t most = 0;
  for (std::uint64_t at = 0; at < memory->bytes().size(); at += 1 << 18) {
    ASSERT_EQ(memory->bytes()[at], ByteOf(at));
    if (at % (1 << 24) == 0) most = std::max(most, Resident());
  }
  EXPECT_LT(most, before + (48 << 20)) << "a sanitizer's shadow of it included";
}

TEST(FetchedMemory, ManyReadersInAnyOrderSeeTheSame) {
  Stored stored;
  const auto pool = Pool();
  const auto memory = FetchedMemory::Map(pool, 200 * kBlock, stored.AsFetch());
  std::vector<std::thread> readers;
  std::atomic<std::uint64_t> differences{0};
  for (unsigned seed = 0; seed < 6; ++seed) {
    readers.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      for (int i = 0; i < 60; ++i) {
        // Across the border of two blocks, both of which have to be there at the same time.
        const std::uint64_t border = (1 + random() % 198) * kBlock;
        differences += Differences(memory->bytes(), border - 100, border + 100);
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(differences, 0u);
}

TEST(FetchedMemory, WhatIsReadAgainAndAgainStays) {
  Stored stored;
  const auto pool = Pool(16, 0);
  const auto memory = FetchedMemory::Map(pool, 400 * kBlock, stored.AsFetch());
  for (std::uint64_t block = 1; block < 400; ++block) {
    ASSERT_EQ(memory->bytes()[0], ByteOf(0));
    ASSERT_EQ(memory->bytes()[block * kBlock], ByteOf(block * kBlock));
  }
  // Only the first round, in which every block was read since it came, may drop it.
  EXPECT_LE(stored.fetches, 401);
}

TEST(FetchedMemory, AfterAFailureTheRestIsZerosAndTheFailureIsTold) {
  Stored stored;
  stored.fails_from = 10 * kBlock;
  const auto pool = Pool(16, 0);
  const auto memory = FetchedMemory::Map(pool, 1000 * kBlock, stored.AsFetch());
  EXPECT_EQ(Differences(memory->bytes(), 0, 10 * kBlock), 0u);
  EXPECT_TRUE(memory->Check().ok());
  for (std::uint64_t block = 10; block < 1000; ++block)
    ASSERT_EQ(memory->bytes()[block * kBlock + 1], 0);
  EXPECT_TRUE(absl::IsPermissionDenied(memory->Check()));
  EXPECT_EQ(memory->Check().message(), StrCat("denied at ", 10 * kBlock));
  EXPECT_EQ(stored.fetches, 11) << "nothing is fetched after a failure";
  EXPECT_EQ(memory->bytes()[5], ByteOf(5)) << "what is there stays";
}

TEST(FetchedMemory, WhatWasOnlyFetchedAheadMayFail) {
  Stored stored;
  stored.fails_from = 3 * kBlock;
  const auto pool = Pool(16, 8);
  const auto memory = FetchedMemory::Map(pool, 100 * kBlock, stored.AsFetch());
  EXPECT_EQ(Differences(memory->bytes(), 0, 2 * kBlock), 0u);
  EXPECT_EQ(memory->bytes()[50 * kBlock], 0);
  EXPECT_FALSE(memory->Check().ok());
}

TEST(FetchedMemory, SeveralShareOnePoolAndOneFails) {
  Stored good, bad;
  bad.fails_from = 0;
  const auto pool = Pool();
  const auto first = FetchedMemory::Map(pool, 30 * kBlock, good.AsFetch());
  auto second = FetchedMemory::Map(pool, 30 * kBlock, bad.AsFetch());
  EXPECT_EQ(second->bytes()[0], 0);
  EXPECT_EQ(Differences(first->bytes(), 0, 30 * kBlock), 0u);
  EXPECT_TRUE(first->Check().ok());
  EXPECT_FALSE(second->Check().ok());
  FetchedMemory moved = *std::move(second);
  EXPECT_FALSE(moved.Check().ok());
}

TEST(FetchedMemory, MayGoWhileItIsFetchedAhead) {
  Stored stored;
  const auto pool = Pool();
  for (int i = 0; i < 20; ++i) {
    stored.waits = false;
    const auto memory = FetchedMemory::Map(pool, 40 * kBlock, stored.AsFetch());
    ASSERT_EQ(memory->bytes()[0], ByteOf(0));
    stored.waits = true;
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      stored.waits = false;
    });
    ASSERT_EQ(memory->bytes()[kBlock], ByteOf(kBlock));  // Fetches ahead.
    later.join();
    stored.waits = i % 2 == 0;  // What is under way now ends after the memory has gone.
  }
  stored.waits = false;
  const auto memory = FetchedMemory::Map(pool, 5 * kBlock, stored.AsFetch());
  EXPECT_EQ(Differences(memory->bytes(), 0, 5 * kBlock), 0u);
}

TEST(FetchedMemory, AnEmptyOneIsEmpty) {
  Stored stored;
  const auto memory = FetchedMemory::Map(Pool(), 0, stored.AsFetch());
  EXPECT_EQ(memory->bytes(), "");
  EXPECT_TRUE(memory->Check().ok());
}

}  // namespace
}  // namespace strobe
