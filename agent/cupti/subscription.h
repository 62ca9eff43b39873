// The agent's subscription to CUPTI: shared with other tools where CUPTI and they allow it, which
// CUDA 13.3 and later do; otherwise CUPTI serves the agent alone, or refuses it.
#pragma once
#include <atomic>
#include <cstdint>

#include "agent/cupti/cupti.h"
#include "agent/wire/layout.h"

namespace strobe::agent {

// Used by one thread; records may be read in CUPTI's own threads.
class Subscription {
 public:
  // What CUPTI calls for buffers; the second pair is that of its second generation.
  struct Buffers {
    CUpti_BuffersCallbackRequestFunc give = nullptr;
    CUpti_BuffersCallbackCompleteFunc take = nullptr;
    GiveSharedFunc give_shared = nullptr;
    TakeSharedFunc take_shared = nullptr;
  };

  // Subscribes. `cupti` must outlive this object. Without `may_share`, other tools must not record
  // at the same time.
  CUptiResult Begin(const Cupti& cupti, bool may_share);
  // Unsubscribes, unless Detach has ended the subscription. Fails if a detach has not come to its
  // end, which cannot be waited for.
  CUptiResult End();
  // Detaches CUPTI from the process, as NVIDIA recommends it: in one of the program's threads, at
  // the end of its next call of CUDA. Waits for the call, and then for the detach, a third of a
  // second each at most. False if it was not detached: it is shared, too old for this to be safe,
  // or there was no call.
  bool Detach();

  CUptiResult Register(const Buffers& buffers);
  CUptiResult Enable(CUpti_ActivityKind kind);
  CUptiResult Disable(CUpti_ActivityKind kind);
  // Records single calls of CUDA. False if this CUPTI can only record all of them.
  bool CanSelectCalls() const;
  void SelectCall(CUpti_CallbackDomain domain, CUpti_CallbackId call, bool on);
  CUptiResult NextRecord(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** record);
  CUptiResult Dropped(CUcontext context, std::uint32_t stream, std::size_t* dropped);

  // Others may record at the same time.
  bool shared() const { return shared_; }
  // The tool that holds CUPTI after a Begin that was refused for it, or else the first one that
  // shares it; empty if not known.
  const char* holder() const { return holder_; }

 private:
  enum class Detachment {
    kNone,
    kWanted,  // By the program's next call. The thread that changes this to kRuns makes it.
    kRuns,
    kDone
  };
  static void CUPTIAPI AtCall(void* subscription, CUpti_CallbackDomain domain,
                              CUpti_CallbackId call, const void* data);
  CUptiResult Subscribe(bool may_share);
  bool WaitWhile(Detachment state) const;
  // Switches the callbacks of the program's calls on or off.
  bool FollowCalls(bool on);

  const Cupti* cupti_ = nullptr;
  CUpti_SubscriberHandle handle_{};
  bool second_ = false;  // CUPTI's second generation of functions records.
  bool shared_ = false;
  char holder_[wire::kHolderBytes] = {};
  std::atomic<Detachment> detachment_{Detachment::kNone};
};

}  // namespace strobe::agent
