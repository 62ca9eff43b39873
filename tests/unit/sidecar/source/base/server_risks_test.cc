#include "sidecar/source/base/server_risks.h"

#include <gmock/gmock.h>

#include "common/base/clock.h"
#include "sidecar/source/base/profile_calls.h"
#include "tests/fakes/fake_profiler_server.h"

namespace strobe::source {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

TEST(ServerAge, IsToldByAMethodThatNewerServersHave) {
  FakeProfilerServer now, old{FakeProfilerServer::From::kBefore2026};
  const std::vector<std::shared_ptr<grpc::Channel>> channels = {
      ConnectToProfiler(now.address(), 1 << 20), ConnectToProfiler(old.address(), 1 << 20), nullptr,
      ConnectToProfiler("127.0.0.1:1", 1 << 20)};
  EXPECT_THAT(AskAges(channels, DeadlineIn(10s)),
              ElementsAre(ServerAge::kSince2026, ServerAge::kBefore2026, ServerAge::kUnknown,
                          ServerAge::kUnknown));
  EXPECT_EQ(now.profiles + old.profiles, 0) << "nothing is recorded for it";
}

TEST(ServerAge, WhatServersInTheFieldDoNotSayIsNotBelieved) {
  EXPECT_EQ(AgeOf(grpc::StatusCode::OK), ServerAge::kUnknown);
  EXPECT_EQ(AgeOf(grpc::StatusCode::DEADLINE_EXCEEDED), ServerAge::kUnknown);
  EXPECT_EQ(AgeOf(grpc::StatusCode::NOT_FOUND), ServerAge::kUnknown);
}

TEST(ServerAge, SaysWhyHostAnnotationsAreMissing) {
  EXPECT_EQ(WhyNoHostTracing(ServerAge::kSince2026), "");
  EXPECT_NE(WhyNoHostTracing(ServerAge::kBefore2026), "");
  EXPECT_NE(WhyNoHostTracing(ServerAge::kUnknown), "");
}

TEST(AskForMethod, TellsWhetherAServerHasIt) {
  const FakeProfilerServer now, early{FakeProfilerServer::From::kWithoutStop};
  const std::vector<std::shared_ptr<grpc::Channel>> channels = {
      ConnectToProfiler(now.address(), 1 << 20), ConnectToProfiler(early.address(), 1 << 20)};
  EXPECT_THAT(AskForMethod(channels, "/tensorflow.ProfilerService/StopContinuousProfiling",
                           DeadlineIn(10s)),
              ElementsAre(grpc::StatusCode::INTERNAL, grpc::StatusCode::UNIMPLEMENTED));
  EXPECT_THAT(AskForMethod(channels, ProfileCalls::kGetSnapshot, DeadlineIn(10s)),
              ElementsAre(grpc::StatusCode::INTERNAL, grpc::StatusCode::INTERNAL));
}

}  // namespace
}  // namespace strobe::source
