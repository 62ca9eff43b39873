#include "sidecar/main/flags.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/status/statusor.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What the command line means, with --insecure-plaintext unless it enrolls.
absl::StatusOr<SidecarFlags> FlagsOf(std::vector<std::string> arguments) {
  SidecarFlags flags;
  CLI::App app;
  AddFlags(app, flags);
  std::reverse(arguments.begin(), arguments.end());  // As CLI11 takes vectors.
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (flags.enroll.empty()) flags.insecure_plaintext = true;
  if (absl::Status checked = CheckFlags(flags); !checked.ok()) return checked;
  return flags;
}

std::string WhyWrong(std::vector<std::string> arguments) {
  return MessageOf(FlagsOf(std::move(arguments)).status());
}

TEST(ListenAddresses, AreTheFirstChoiceFirst) {
  EXPECT_THAT(ListenAddresses("[::]:9470"), ElementsAre("[::]:9470"));
  EXPECT_THAT(ListenAddresses("[::]:9470,9480,9490"),
              ElementsAre("[::]:9470", "[::]:9480", "[::]:9490"));
  EXPECT_THAT(ListenAddresses("127.0.0.1:0"), ElementsAre("127.0.0.1:0"));
  EXPECT_THAT(ListenAddresses("worker-0.jobs:1,2"),
              ElementsAre("worker-0.jobs:1", "worker-0.jobs:2"));
}

// The server then names the address that it cannot listen on.
TEST(ListenAddresses, WithoutAPortStayAsTheyAre) {
  EXPECT_THAT(ListenAddresses("localhost"), ElementsAre("localhost"));
  EXPECT_THAT(ListenAddresses(""), ElementsAre(""));
}

TEST(SidecarFlags, TheListOfPortsReachesTheFlagWhole) {
  EXPECT_EQ(FlagsOf({"--listen=[::]:20001,20002"})->listen, "[::]:20001,20002");
  EXPECT_EQ(FlagsOf({})->listen, "[::]:9470");
  EXPECT_THAT(FlagsOf({"--framework=localhost:1,localhost:2"})->framework,
              ElementsAre("localhost:1", "localhost:2"));
}

// Injection sets --grace within this range.
TEST(SidecarFlags, ACaptureMayHaveFromNothingToAnHourToFinish) {
  EXPECT_EQ(FlagsOf({})->grace_seconds, 25);
  EXPECT_EQ(FlagsOf({"--grace=1"})->grace_seconds, 1);
  EXPECT_EQ(FlagsOf({"--grace=3600"})->grace_seconds, 3600);
  EXPECT_THAT(WhyWrong({"--grace=3601"}), HasSubstr("--grace"));
}

TEST(SidecarFlags, WhatDoesNotGoTogetherIsNamed) {
  EXPECT_THAT(WhyWrong({"--framework=9012"}), HasSubstr("not a host:port"));
  EXPECT_THAT(WhyWrong({"--enroll=o:1"}), HasSubstr("--roots"));
  EXPECT_THAT(WhyWrong({"--enroll=o:1", "--roots=r", "--listen=:1", "--compat-listen=:1"}),
              HasSubstr("--compat-listen must differ"));
  EXPECT_THAT(WhyWrong({"--flight-recorder=11m"}), HasSubstr("at most 10m"));
  EXPECT_THAT(WhyWrong({"--upload-rate=1KB"}), HasSubstr("at least 1MB"));
  EXPECT_THAT(WhyWrong({"--of-a-newer-operator"}), HasSubstr("--of-a-newer-operator"));
}

}  // namespace
}  // namespace strobe
