#include "cli/capture/addresses.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>

namespace strobe::cli {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

TEST(ParseWorkers, TakesAddressesWithAndWithoutScheme) {
  const auto targets = ParseWorkers("10.0.0.2:9470, grpc://trainer-1.team:9471,[fd00::1]:80");
  ASSERT_TRUE(targets.ok()) << targets.status();
  ASSERT_THAT(*targets, SizeIs(3));
  EXPECT_EQ((*targets)[0].address, "10.0.0.2:9470");
  EXPECT_EQ((*targets)[1].address, "trainer-1.team:9471");
  EXPECT_EQ((*targets)[1].name, "trainer-1.team:9471");
  EXPECT_EQ((*targets)[1].file, "trainer-1.team_9471") << "the name of its trace";
  EXPECT_EQ((*targets)[2].address, "[fd00::1]:80");
  EXPECT_EQ((*targets)[2].rank, 2);
}

TEST(ParseWorkers, SaysWhichEntryIsWrongAndWhatToWrite) {
  const std::pair<std::string, std::string> wrong[] = {
      {"", "is empty"},
      {"a:1,,b:1", "is empty"},
      {"a", "--workers: \"a\" has no port"},
      {":80", "has no host"},
      {"a:1,http://b:1", "--workers: \"http://b:1\" has a scheme that is not grpc"},
      {"b:1/x", "--workers: \"b:1/x\" has a path"},
      {"fd00::1:80", "put an IPv6 address into brackets"},
      {"a:0", "has a port that is not a number from 1 to 65535"},
      {"a:65536", "has a port that is not a number"},
      {"a:80x", "has a port that is not a number"},
      {"a:", "has a port that is not a number"},
      {"a:80,grpc://a:80", "--workers: \"grpc://a:80\" is listed twice"},
  };
  for (const auto& [list, words] : wrong) {
    const auto targets = ParseWorkers(list);
    EXPECT_EQ(targets.status().code(), absl::StatusCode::kInvalidArgument) << list;
    EXPECT_THAT(std::string(targets.status().message()), HasSubstr(words)) << list;
    EXPECT_THAT(std::string(targets.status().message()), HasSubstr("write host:port")) << list;
  }
}

TEST(ParseWorkers, ARoleBeforeEachAddressNamesItsTrace) {
  const auto targets = ParseWorkers("prefill=a:1,decode=b:1, decode=grpc://c:1");
  ASSERT_TRUE(targets.ok()) << targets.status();
  ASSERT_THAT(*targets, SizeIs(3));
  EXPECT_EQ((*targets)[0].role, "prefill");
  EXPECT_EQ((*targets)[0].role_from, "request");
  EXPECT_EQ((*targets)[0].name, "a:1");
  EXPECT_EQ((*targets)[0].file, "prefill.a_1");
  EXPECT_EQ((*targets)[1].rank, 0) << "ranks count within the role";
  EXPECT_EQ((*targets)[2].rank, 1);
  EXPECT_EQ((*targets)[2].address, "c:1");
  for (const char* wrong : {"prefill=a:1,b:1", "a:1,decode=b:1", "Decode=a:1", "=a:1"})
    EXPECT_FALSE(ParseWorkers(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace strobe::cli
