// A worker's sources as one: the framework's profiler servers and the agent.
#pragma once
#include "sidecar/session/ports.h"

namespace strobe {

// The plan says which; SOURCE_AUTO records with all that are there and joins what they recorded.
class AutoSource final : public session::Source {
 public:
  // Both outlive it.
  AutoSource(session::Source& framework, session::Source& agent)
      : framework_(framework), agent_(agent) {}

  std::vector<v1::Source> Probe(Nanos timeout) override;
  Nanos lead() const override;
  session::Recording Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                            const Cancellation& terminate,
                            const std::function<void()>& collecting) override;

 private:
  session::Source& framework_;
  session::Source& agent_;
};

}  // namespace strobe
