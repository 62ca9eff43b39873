// Combines the sources of a worker: the framework's profiler servers, the profilers of processes
// that announced themselves, and the agent.
#pragma once
#include "sidecar/session/ports.h"

namespace strobe {

// The plan selects the source. SOURCE_AUTO records from all available sources and joins the
// results.
class AutoSource final : public session::Source {
 public:
  // All must outlive this object.
  AutoSource(session::Source& framework, session::Source& inproc, session::Source& agent)
      : framework_(framework), inproc_(inproc), agent_(agent) {}

  std::vector<v1::Source> Probe(Nanos timeout) override;
  Nanos lead() const override;
  std::vector<v1::StepPace> Steps() override;
  session::Recording Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                            const Cancellation& terminate,
                            const std::function<void()>& collecting) override;

 private:
  // The plan with the servers that answer.
  v1::CapturePlan WithServers(const v1::CapturePlan& plan);
  session::Recording RecordSteps(const v1::CapturePlan& plan, const Cancellation& cancel,
                                 const Cancellation& terminate,
                                 const std::function<void()>& collecting);

  session::Source& framework_;
  session::Source& inproc_;
  session::Source& agent_;
};

}  // namespace strobe
