#include "agent/nccl/links.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace strobe::nccl {
namespace {

TEST(Links, LeadFromAHandleToItsRecord) {
  const auto links = std::make_unique<Links>();
  int a = 0, b = 0;
  EXPECT_FALSE(links->Find(&a, 10));
  links->Add(&a, 3, /*marked=*/false);
  links->Add(&b, 4, /*marked=*/true);
  EXPECT_EQ(links->Find(&a, 10)->number, 3u);
  EXPECT_FALSE(links->Find(&a, 10)->marked);
  EXPECT_EQ(links->Find(&b, 10)->number, 4u);
  EXPECT_TRUE(links->Find(&b, 10)->marked);
  links->Add(&a, 9, /*marked=*/false);
  EXPECT_EQ(links->Find(&a, 10)->number, 9u) << "the handle was used again";
}

TEST(Links, NumbersMayBeLarge) {
  const auto links = std::make_unique<Links>();
  int a = 0;
  for (const std::uint64_t number : {0xffff'ffffull, 0x1'0000'0000ull, 0x123'4567'89abull}) {
    links->Add(&a, number, /*marked=*/false);
    EXPECT_EQ(links->Find(&a, number + 100)->number, number);
  }
}

// A pool of handles is used over and over. Whatever is forgotten, none leads to a wrong record.
TEST(Links, NeverLeadToAnotherHandlesRecord) {
  const auto links = std::make_unique<Links>();
  const std::vector<char> handles(20'000);
  std::size_t found = 0;
  for (std::size_t i = 0; i < handles.size(); ++i) links->Add(&handles[i], i, /*marked=*/false);
  for (std::size_t i = 0; i < handles.size(); ++i) {
    const auto link = links->Find(&handles[i], handles.size());
    if (!link) continue;
    EXPECT_EQ(link->number, i);
    ++found;
  }
  EXPECT_GT(found, 2000u);
}

TEST(OwnHandles, AreKnownByTheirAddress) {
  const auto own = std::make_unique<OwnHandles>();
  int foreign = 0;
  EXPECT_FALSE(own->Has(&foreign));
  EXPECT_FALSE(own->Has(nullptr));
  for (const std::uint64_t number : {0ull, 1ull, 65'535ull, 65'536ull, 1'000'000ull}) {
    void* const handle = own->Of(number);
    EXPECT_TRUE(own->Has(handle));
    EXPECT_EQ(own->NumberOf(handle, number + 1), number);
    EXPECT_EQ(own->NumberOf(handle, number + 8192), number);
  }
  EXPECT_FALSE(own->NumberOf(own->Of(5), 3)) << "there is no such record yet";
}

}  // namespace
}  // namespace strobe::nccl
