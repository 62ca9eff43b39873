// Combines the sources of a worker: the framework's profiler servers, the profilers of processes
// that announced themselves, Kineto's daemon, and the agent.
#pragma once
#include <functional>
#include <vector>

#include "sidecar/capture/ports.h"
#include "sidecar/source/inproc/inproc_source.h"
#include "sidecar/source/inproc/missing_processes.h"
#include "sidecar/source/kineto/kineto_source.h"

namespace strobe::source {

// The plan selects the source. SOURCE_AUTO records from all available sources and joins the
// results.
class AutoSource final : public session::Source {
 public:
  // All must outlive this object. `kineto` is null where the sidecar is no daemon of Kineto's.
  AutoSource(session::Source& framework, session::Source& inproc, session::Source& agent,
             session::Source* kineto = nullptr)
      : framework_(framework), inproc_(inproc), agent_(agent), kineto_(kineto) {}
  // Like the constructor above, but `inproc` leaves to `kineto` the processes that only Kineto can
  // record.
  AutoSource(session::Source& framework, InprocSource& inproc, session::Source& agent,
             KinetoSource* kineto);

  std::vector<v1::Source> Probe(Nanos timeout) override;
  Nanos lead() const override;
  std::vector<v1::StepPace> Steps() override;
  std::vector<session::EngineReading> Engines() override;
  std::vector<session::Recording> Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                                         const Cancellation& terminate,
                                         const std::function<void()>& collecting) override;

 private:
  std::vector<session::Recording> RecordParts(const v1::CapturePlan& plan,
                                              const Cancellation& cancel,
                                              const Cancellation& terminate,
                                              const std::function<void()>& collecting);
  // The plan with the servers that answer.
  v1::CapturePlan WithServers(const v1::CapturePlan& plan);
  std::vector<session::Recording> RecordSteps(const v1::CapturePlan& plan,
                                              const Cancellation& cancel,
                                              const Cancellation& terminate,
                                              const std::function<void()>& collecting);

  session::Source& framework_;
  session::Source& inproc_;
  session::Source& agent_;
  session::Source* const kineto_;
  std::function<WorkerProcesses()> processes_{};  // Empty where no process tells of itself.
};

}  // namespace strobe::source
