// Looks for the signs that ProfileTriggers ask for, and tells them to the operator. While no
// trigger asks for any, it only asks the operator now and then whether one does.
#pragma once
#include <memory>
#include <thread>

#include "common/base/cancellation.h"
#include "common/base/clock.h"
#include "sidecar/capture/engine_signs.h"
#include "sidecar/capture/job_signs.h"
#include "sidecar/capture/ports.h"
#include "sidecar/enroll/sign_teller.h"
#include "sidecar/source/agent/reported_memory.h"

namespace strobe {

class SignWatch {
 public:
  // Begins. All outlive it; `memory` is null if programs cannot tell their memory use.
  SignWatch(const Clock& clock, session::Source& source,
            std::unique_ptr<source::ReportedMemory> memory, enroll::SignTeller teller);
  // A call in progress is waited for, at most SignTeller::kTellTimeout.
  ~SignWatch();
  SignWatch(const SignWatch&) = delete;
  SignWatch& operator=(const SignWatch&) = delete;

 private:
  void Run();
  void Look();
  void Tell();

  const Clock& clock_;
  session::Source& source_;
  const std::unique_ptr<source::ReportedMemory> memory_;
  enroll::SignTeller teller_;
  session::JobSignRules rules_;
  session::EngineSignRules engine_rules_;
  bool complained_ = false;
  Cancellation stop_;
  std::thread thread_;  // Last: it uses the rest.
};

}  // namespace strobe
