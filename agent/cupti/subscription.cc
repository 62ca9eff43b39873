#include "agent/cupti/subscription.h"

#include <unistd.h>

#include <cstring>

namespace strobe::agent {
namespace {

// What other tools are told of the agent.
constexpr char kName[] = "Strobe";
// CUPTI_API_VERSION of CUDA 13.0. Before it, a program with CUDA graphs can crash when CUPTI is
// used again after it was detached.
constexpr std::uint32_t kDetachIsSafe = 130000;
constexpr int kMaxDetachMs = 300;

std::uint32_t VersionOf(const Cupti& cupti) {
  std::uint32_t version = 0;
  if (cupti.version != nullptr) cupti.version(&version);
  return version;
}

}  // namespace

CUptiResult Subscription::Begin(const Cupti& cupti, bool may_share) {
  cupti_ = &cupti;
  shared_ = second_ = false;
  detachment_ = Detachment::kNone;
  std::memset(holder_, 0, sizeof holder_);
  return Subscribe(may_share);
}

CUptiResult Subscription::Subscribe(bool may_share) {
  const SecondGeneration& second = cupti_->second;
  if (second.subscribe == nullptr) return cupti_->subscribe(&handle_, &AtCall, this);
  const std::uint32_t version = VersionOf(*cupti_);
  const bool records = version >= kSharingIsProduction && second.CanRecord();
  const bool share = may_share && records;
  SubscriberParams params;
  params.struct_size = version >= kSharingWasAdded
                           ? sizeof params
                           : offsetof(SubscriberParams, allow_multiple_subscribers);
  params.subscriber_name = kName;
  params.old_subscriber_name = holder_;
  params.old_subscriber_size = sizeof holder_;
  params.allow_multiple_subscribers = share ? 1 : 0;
  const CUptiResult result = second.subscribe(&handle_, &AtCall, this, &params);
  holder_[sizeof holder_ - 1] = '\0';
  if (result == CUPTI_ERROR_INVALID_PARAMETER)  // It knows another struct.
    return cupti_->subscribe(&handle_, &AtCall, this);
  second_ = records && result == CUPTI_SUCCESS;
  shared_ = share && result == CUPTI_SUCCESS;
  // CUPTI names the first subscriber, which may be this one.
  if (result == CUPTI_SUCCESS && (!shared_ || std::strstr(holder_, kName) != nullptr))
    std::memset(holder_, 0, sizeof holder_);
  return result;
}

CUptiResult Subscription::End() {
  if (detachment_ == Detachment::kDone) return CUPTI_SUCCESS;
  return detachment_ == Detachment::kRuns ? CUPTI_ERROR_UNKNOWN : cupti_->unsubscribe(handle_);
}

void CUPTIAPI Subscription::AtCall(void* subscription, CUpti_CallbackDomain domain,
                                   CUpti_CallbackId, const void* data) {
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API && domain != CUPTI_CB_DOMAIN_RUNTIME_API) return;
  auto& self = *static_cast<Subscription*>(subscription);
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  Detachment wanted = Detachment::kWanted;
  if (call.callbackSite != CUPTI_API_EXIT ||
      !self.detachment_.compare_exchange_strong(wanted, Detachment::kRuns))
    return;
  self.detachment_ =
      self.cupti_->finalize() == CUPTI_SUCCESS ? Detachment::kDone : Detachment::kNone;
}

bool Subscription::FollowCalls(bool on) {
  bool all = true;
  for (const CUpti_CallbackDomain domain :
       {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API})
    all = cupti_->enable_domain(on ? 1u : 0u, handle_, domain) == CUPTI_SUCCESS && all;
  return all;
}

bool Subscription::WaitWhile(Detachment state) const {
  for (int i = 0; i < kMaxDetachMs && detachment_ == state; ++i) usleep(1000);
  return detachment_ != state;
}

bool Subscription::Detach() {
  if (shared_ || cupti_->finalize == nullptr || cupti_->enable_domain == nullptr ||
      VersionOf(*cupti_) < kDetachIsSafe)
    return false;
  if (!FollowCalls(/*on=*/true)) {
    FollowCalls(/*on=*/false);
    return false;
  }
  // From here on nothing is called until the order has been followed or withdrawn, because the
  // detach ends the subscription.
  detachment_ = Detachment::kWanted;
  Detachment wanted = Detachment::kWanted;
  const bool no_call = !WaitWhile(Detachment::kWanted) &&
                       detachment_.compare_exchange_strong(wanted, Detachment::kNone);
  if (!no_call && !WaitWhile(Detachment::kRuns)) return false;
  if (detachment_ == Detachment::kDone) return true;
  FollowCalls(/*on=*/false);
  return false;
}

CUptiResult Subscription::Register(const Buffers& buffers) {
  // Uses the thread ids of the system, which the annotations use as well.
  if (!second_) {
    if (cupti_->set_thread_id_type != nullptr)
      cupti_->set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    return cupti_->register_callbacks(buffers.give, buffers.take);
  }
  const SecondGeneration& second = cupti_->second;
  int type = CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM;
  std::size_t size = sizeof type;
  if (second.set_attribute != nullptr)
    second.set_attribute(handle_, kAttributeThreadIdType, &size, &type);
  return second.register_callbacks(handle_, buffers.give_shared, buffers.take_shared);
}

CUptiResult Subscription::Enable(CUpti_ActivityKind kind) {
  return second_ ? cupti_->second.enable(handle_, kind, nullptr) : cupti_->enable(kind);
}

CUptiResult Subscription::Disable(CUpti_ActivityKind kind) {
  return second_ ? cupti_->second.disable(handle_, kind, nullptr) : cupti_->disable(kind);
}

bool Subscription::CanSelectCalls() const {
  const SecondGeneration& second = cupti_->second;
  if (second_) return second.enable_driver_call != nullptr && second.enable_runtime_call != nullptr;
  return cupti_->enable_driver_call != nullptr && cupti_->enable_runtime_call != nullptr;
}

void Subscription::SelectCall(CUpti_CallbackDomain domain, CUpti_CallbackId call, bool on) {
  const std::uint8_t enable = on ? 1 : 0;
  const bool driver = domain == CUPTI_CB_DOMAIN_DRIVER_API;
  if (second_) {
    const SecondGeneration& second = cupti_->second;
    (driver ? second.enable_driver_call : second.enable_runtime_call)(handle_, call, enable);
  } else {
    (driver ? cupti_->enable_driver_call : cupti_->enable_runtime_call)(call, enable);
  }
}

CUptiResult Subscription::NextRecord(std::uint8_t* buffer, std::size_t valid,
                                     CUpti_Activity** record) {
  return second_ ? cupti_->second.next_record(handle_, buffer, valid, record)
                 : cupti_->next_record(buffer, valid, record);
}

CUptiResult Subscription::Dropped(CUcontext context, std::uint32_t stream, std::size_t* dropped) {
  return second_ ? cupti_->second.dropped_records(handle_, context, stream, dropped)
                 : cupti_->dropped_records(context, stream, dropped);
}

}  // namespace strobe::agent
