#include "agent/cupti/kinds.h"

#include <gmock/gmock.h>

#include <optional>
#include <set>

namespace strobe::agent {
namespace {

using testing::Contains;
using testing::Not;
using testing::UnorderedElementsAre;
using wire::DeviceMode;

// What is enabled now.
std::set<CUpti_ActivityKind> kinds_on;
std::set<CUpti_CallbackId> calls_on;
std::optional<CUpti_ActivityKind> refused_kind;

Cupti CountingCupti() {
  Cupti cupti;
  cupti.subscribe = [](CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*) {
    return CUPTI_SUCCESS;
  };
  cupti.enable = [](CUpti_ActivityKind kind) {
    if (kind == refused_kind) return CUPTI_ERROR_INVALID_KIND;
    kinds_on.insert(kind);
    return CUPTI_SUCCESS;
  };
  cupti.disable = [](CUpti_ActivityKind kind) {
    kinds_on.erase(kind);
    return CUPTI_SUCCESS;
  };
  cupti.enable_driver_call = [](CUpti_CallbackId call, std::uint8_t on) {
    if (on != 0)
      calls_on.insert(call);
    else
      calls_on.erase(call);
    return CUPTI_SUCCESS;
  };
  cupti.enable_runtime_call = [](CUpti_CallbackId, std::uint8_t) { return CUPTI_SUCCESS; };
  return cupti;
}

class EnableKindsTest : public testing::Test {
 protected:
  EnableKindsTest() {
    kinds_on.clear();
    calls_on.clear();
    refused_kind.reset();
    subscription_.Begin(cupti_, /*may_share=*/true);
  }
  std::optional<CuptiFailure> Enable(DeviceMode mode) {
    return EnableKinds(subscription_, mode, undo_);
  }
  void Undo() {
    for (; !undo_.empty(); undo_.pop_back()) undo_.back()();
  }

  Cupti cupti_ = CountingCupti();
  Subscription subscription_;
  CuptiUndo undo_;
};

TEST_F(EnableKindsTest, KernelsAreWhatRanOnDevices) {
  EXPECT_FALSE(Enable(DeviceMode::kKernels).has_value());
  EXPECT_THAT(kinds_on, UnorderedElementsAre(
                            CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                            CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET));
  EXPECT_TRUE(calls_on.empty());
}

TEST_F(EnableKindsTest, LaunchesAddsOnlyTheCallsThatStartWork) {
  EXPECT_FALSE(Enable(DeviceMode::kLaunches).has_value());
  EXPECT_THAT(kinds_on, Not(Contains(CUPTI_ACTIVITY_KIND_DRIVER)));
  EXPECT_THAT(kinds_on, Not(Contains(CUPTI_ACTIVITY_KIND_MEMORY2)));
  EXPECT_THAT(calls_on, Contains(CUpti_CallbackId{CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel}));
  EXPECT_THAT(calls_on, Contains(CUpti_CallbackId{CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch}));
  EXPECT_THAT(calls_on, Not(Contains(CUpti_CallbackId{CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2})));
  EXPECT_EQ(calls_on.size(), LaunchCallsOfDriver().size());
  Undo();
  EXPECT_TRUE(kinds_on.empty() && calls_on.empty());
}

TEST_F(EnableKindsTest, WhereCallsCannotBeSelectedAllAreRecorded) {
  cupti_.enable_driver_call = nullptr;
  EXPECT_FALSE(Enable(DeviceMode::kLaunches).has_value());
  EXPECT_THAT(kinds_on, Contains(CUPTI_ACTIVITY_KIND_DRIVER));
  EXPECT_THAT(kinds_on, Contains(CUPTI_ACTIVITY_KIND_RUNTIME));
}

TEST_F(EnableKindsTest, GraphsAreEnabledOrItFails) {
  EXPECT_FALSE(Enable(DeviceMode::kGraphs).has_value());
  EXPECT_THAT(kinds_on, Contains(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
  Undo();
  refused_kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
  const std::optional<CuptiFailure> failure = Enable(DeviceMode::kGraphs);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->step, wire::DeviceStep::kEnableGraphs);
  EXPECT_EQ(failure->result, CUPTI_ERROR_INVALID_KIND);
}

TEST_F(EnableKindsTest, AllGoesOnWithoutWhatALibraryDoesNotHave) {
  refused_kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  EXPECT_FALSE(Enable(DeviceMode::kAll).has_value());
  EXPECT_THAT(kinds_on, Contains(CUPTI_ACTIVITY_KIND_MEMORY2));
  EXPECT_THAT(kinds_on, Contains(CUPTI_ACTIVITY_KIND_DRIVER));
  EXPECT_TRUE(calls_on.empty());
}

TEST(ModeOf, UnknownWordsAreTheDefault) {
  EXPECT_EQ(ModeOf(0), DeviceMode::kLaunches);
  EXPECT_EQ(ModeOf(1), DeviceMode::kLaunches);
  EXPECT_EQ(ModeOf(77), DeviceMode::kLaunches);
  EXPECT_EQ(ModeOf(2u | wire::kBesideKineto), DeviceMode::kKernels);
}

}  // namespace
}  // namespace strobe::agent
