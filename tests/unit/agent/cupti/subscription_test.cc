#include "agent/cupti/subscription.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace strobe::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr CUptiResult kTaken = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;

// A CUPTI that answers as it is told, and notes what it was called.
struct Library {
  std::uint32_t version = 130500;
  CUptiResult subscribe = CUPTI_SUCCESS, finalize = CUPTI_SUCCESS;
  std::string holder{};
  std::size_t struct_size = 0;
  int asked_to_share = -1;
  std::vector<std::string> called{};
  CUpti_CallbackFunc callback = nullptr;
  void* user = nullptr;
  std::optional<CUpti_CallbackDomain> refused_domain{};
};
Library library;

// The program makes a call of CUDA, and CUPTI tells the agent.
void CallOfProgram() {
  CUpti_CallbackData data{};
  for (const CUpti_ApiCallbackSite site : {CUPTI_API_ENTER, CUPTI_API_EXIT}) {
    data.callbackSite = site;
    library.callback(library.user, CUPTI_CB_DOMAIN_RUNTIME_API, 1, &data);
  }
}

void AddFirstGeneration(Cupti& cupti) {
  cupti.version = [](std::uint32_t* version) {
    *version = library.version;
    return CUPTI_SUCCESS;
  };
  cupti.subscribe = [](CUpti_SubscriberHandle*, CUpti_CallbackFunc callback, void* user) {
    library.called.emplace_back("subscribe");
    library.callback = callback;
    library.user = user;
    return library.subscribe;
  };
  cupti.unsubscribe = [](CUpti_SubscriberHandle) {
    library.called.emplace_back("unsubscribe");
    return CUPTI_SUCCESS;
  };
  cupti.enable = [](CUpti_ActivityKind) {
    library.called.emplace_back("enable");
    return CUPTI_SUCCESS;
  };
  cupti.finalize = [] {
    library.called.emplace_back("finalize");
    return library.finalize;
  };
  cupti.enable_domain = [](std::uint32_t on, CUpti_SubscriberHandle, CUpti_CallbackDomain domain) {
    library.called.emplace_back(on != 0 ? "follow" : "ignore");
    return domain == library.refused_domain ? CUPTI_ERROR_NOT_COMPATIBLE : CUPTI_SUCCESS;
  };
}

void AddSecondGeneration(SecondGeneration& second) {
  second.subscribe = [](CUpti_SubscriberHandle*, CUpti_CallbackFunc callback, void* user,
                        SubscriberParams* params) {
    library.called.emplace_back("subscribe_v2");
    library.callback = callback;
    library.user = user;
    library.struct_size = params->struct_size;
    library.asked_to_share = params->allow_multiple_subscribers;
    std::snprintf(params->old_subscriber_name, params->old_subscriber_size, "%s",
                  library.holder.c_str());
    return library.subscribe;
  };
  second.register_callbacks = [](CUpti_SubscriberHandle, GiveSharedFunc, TakeSharedFunc) {
    return CUPTI_SUCCESS;
  };
  second.enable = [](CUpti_SubscriberHandle, CUpti_ActivityKind, void*) {
    library.called.emplace_back("enable_v2");
    return CUPTI_SUCCESS;
  };
  second.disable = [](CUpti_SubscriberHandle, CUpti_ActivityKind, void*) { return CUPTI_SUCCESS; };
  second.next_record = [](CUpti_SubscriberHandle, std::uint8_t*, std::size_t, CUpti_Activity**) {
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  };
  second.dropped_records = [](CUpti_SubscriberHandle, CUcontext, std::uint32_t, std::size_t*) {
    return CUPTI_SUCCESS;
  };
}

class SubscriptionTest : public testing::Test {
 protected:
  SubscriptionTest() {
    library = Library{};
    AddFirstGeneration(cupti_);
    AddSecondGeneration(cupti_.second);
  }

  Cupti cupti_;
  Subscription subscription_;
};

TEST_F(SubscriptionTest, SharesWhereSharingIsNoBeta) {
  EXPECT_EQ(subscription_.Begin(cupti_, /*may_share=*/true), CUPTI_SUCCESS);
  EXPECT_TRUE(subscription_.shared());
  EXPECT_EQ(library.asked_to_share, 1);
  EXPECT_EQ(library.struct_size, 40u) << "CUpti_SubscriberParams_STRUCT_SIZE of CUDA 13.5";
  subscription_.Enable(CUPTI_ACTIVITY_KIND_MEMCPY);
  EXPECT_THAT(library.called, ElementsAre("subscribe_v2", "enable_v2"));
  library.version = 130200;
  subscription_.Begin(cupti_, /*may_share=*/true);
  EXPECT_FALSE(subscription_.shared());
  EXPECT_EQ(library.asked_to_share, 0);
}

TEST_F(SubscriptionTest, OlderLibrariesGetTheirOwnStructAndFunctions) {
  library.version = 130000;
  EXPECT_EQ(subscription_.Begin(cupti_, /*may_share=*/true), CUPTI_SUCCESS);
  EXPECT_EQ(library.struct_size, 32u) << "CUpti_SubscriberParams_STRUCT_SIZE of CUDA 13.0";
  subscription_.Enable(CUPTI_ACTIVITY_KIND_MEMCPY);
  EXPECT_THAT(library.called, ElementsAre("subscribe_v2", "enable"));
  library.called.clear();
  cupti_.second = {};
  EXPECT_EQ(subscription_.Begin(cupti_, /*may_share=*/true), CUPTI_SUCCESS);
  EXPECT_THAT(library.called, ElementsAre("subscribe"));
}

TEST_F(SubscriptionTest, ALibraryThatKnowsAnotherStructIsAskedWithoutOne) {
  library.subscribe = CUPTI_ERROR_INVALID_PARAMETER;
  EXPECT_EQ(subscription_.Begin(cupti_, /*may_share=*/true), CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_THAT(library.called, ElementsAre("subscribe_v2", "subscribe"));
}

TEST_F(SubscriptionTest, NamesWhoHoldsCuptiOrSharesIt) {
  library.holder = "CUPTI for Nsight Systems";
  library.subscribe = kTaken;
  EXPECT_EQ(subscription_.Begin(cupti_, /*may_share=*/true), kTaken);
  EXPECT_STREQ(subscription_.holder(), "CUPTI for Nsight Systems");
  EXPECT_FALSE(subscription_.shared());
  library.subscribe = CUPTI_SUCCESS;
  subscription_.Begin(cupti_, /*may_share=*/true);
  EXPECT_STREQ(subscription_.holder(), "CUPTI for Nsight Systems");
  subscription_.Begin(cupti_, /*may_share=*/false);
  EXPECT_STREQ(subscription_.holder(), "") << "nobody else is there";
  library.holder = "CUPTI for Strobe";
  subscription_.Begin(cupti_, /*may_share=*/true);
  EXPECT_STREQ(subscription_.holder(), "") << "it is the first one itself";
  library.holder = std::string(100, 'x');
  library.subscribe = kTaken;
  subscription_.Begin(cupti_, /*may_share=*/true);
  EXPECT_EQ(std::string(subscription_.holder()).size(), wire::kHolderBytes - 1);
}

// Detach waits for a call of the program, whose threads are others.
class ProgramOfSubscription : public SubscriptionTest {
 protected:
  ProgramOfSubscription() {
    subscription_.Begin(cupti_, /*may_share=*/false);
    library.called.clear();
    thread_ = std::thread([this] {
      for (; !over_; std::this_thread::yield()) CallOfProgram();
    });
  }
  void TearDown() override {
    over_ = true;
    thread_.join();
  }

  std::atomic<bool> over_{false};
  std::thread thread_;
};

TEST_F(ProgramOfSubscription, DetachesAtTheEndOfItsNextCall) {
  EXPECT_TRUE(subscription_.Detach());
  EXPECT_EQ(subscription_.End(), CUPTI_SUCCESS);
  EXPECT_THAT(library.called, ElementsAre("follow", "follow", "finalize"))
      << "once, and nothing after it";
}

TEST_F(ProgramOfSubscription, GoesOnIfCuptiRefusesToDetach) {
  library.finalize = CUPTI_ERROR_UNKNOWN;
  EXPECT_FALSE(subscription_.Detach());
  EXPECT_EQ(subscription_.End(), CUPTI_SUCCESS);
  EXPECT_THAT(library.called,
              ElementsAre("follow", "follow", "finalize", "ignore", "ignore", "unsubscribe"));
}

TEST_F(ProgramOfSubscription, IsNotDetachedIfItsCallsAreNotTold) {
  library.refused_domain = CUPTI_CB_DOMAIN_RUNTIME_API;
  EXPECT_FALSE(subscription_.Detach());
  EXPECT_EQ(subscription_.End(), CUPTI_SUCCESS);
  EXPECT_THAT(library.called, ElementsAre("follow", "follow", "ignore", "ignore", "unsubscribe"));
}

TEST_F(SubscriptionTest, StaysAttachedIfTheProgramMakesNoCall) {
  subscription_.Begin(cupti_, /*may_share=*/false);
  library.called.clear();
  EXPECT_FALSE(subscription_.Detach());
  CallOfProgram();  // Too late.
  EXPECT_EQ(subscription_.End(), CUPTI_SUCCESS);
  EXPECT_THAT(library.called, ElementsAre("follow", "follow", "ignore", "ignore", "unsubscribe"));
}

TEST_F(SubscriptionTest, NeverDetachesWhatIsSharedOrTooOld) {
  subscription_.Begin(cupti_, /*may_share=*/true);
  library.called.clear();
  EXPECT_FALSE(subscription_.Detach()) << "others record";
  library.version = 28;  // CUDA 12.9.
  cupti_.second = {};
  subscription_.Begin(cupti_, /*may_share=*/false);
  library.called.clear();
  EXPECT_FALSE(subscription_.Detach());
  EXPECT_THAT(library.called, IsEmpty());
}

}  // namespace
}  // namespace strobe::agent
