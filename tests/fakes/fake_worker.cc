#include "tests/fakes/fake_worker.h"

#include <stdexcept>
#include <utility>

#include "collector/store/logdir.h"

namespace strobe {
namespace {

using std::chrono::milliseconds;
constexpr Nanos kRoundTrip = milliseconds(1);

capture::ClockEstimate Measured(const SimulatedTime& time, const FakeSidecar& sidecar,
                                Nanos drift) {
  return {.at = time.WallNow(), .offset = sidecar.offset + drift, .error = sidecar.clock_error};
}

class FakeWorker final : public capture::Worker {
 public:
  FakeWorker(SimulatedTime& time, std::shared_ptr<FakeSidecar> sidecar)
      : time_(time), sidecar_(std::move(sidecar)) {}

  void Check(const std::string& capture_id, Nanos timeout,
             Callback<capture::Preflight> done) override {
    ++sidecar_->checks;
    time_.PostAfter(sidecar_->dead ? timeout : kRoundTrip + sidecar_->check_takes,
                    [&time = time_, s = sidecar_, capture_id, done = std::move(done)] {
                      if (s->dead) return done(absl::UnavailableError("connection refused"));
                      if (!s->check.ok()) return done(s->check);
                      capture::Preflight preflight;
                      if (s->clock_measurable) {
                        preflight.clock = Measured(time, *s, s->blur);
                        preflight.clock->error += s->blur;
                      }
                      preflight.round_trip = kRoundTrip;
                      v1::DescribeResponse& description = preflight.description;
                      description.set_protocol(s->protocol);
                      description.set_holder(s->holder);
                      description.set_wake_lateness_ns(s->wake_lateness.count());
                      v1::Source& source = *description.add_sources();
                      source.set_address("localhost:9012");
                      source.set_kind(s->source);
                      for (const std::string& name : s->containers)
                        description.add_containers(name);
                      for (const v1::StepPace& pace : s->steps) *description.add_steps() = pace;
                      if (s->stall) *description.mutable_stall() = *s->stall;
                      source.set_ready(s->source_ready);
                      for (const v1::ProcessRank& rank : s->ranks) *source.add_ranks() = rank;
                      if (!s->source_ready) source.set_detail("nothing is listening");
                      const auto known = s->reports.find(capture_id);
                      if (known != s->reports.end()) *description.mutable_report() = known->second;
                      done(std::move(preflight));
                    });
  }

  void MeasureClock(Nanos timeout, Callback<capture::ClockEstimate> done) override {
    time_.PostAfter(sidecar_->dead ? timeout : kRoundTrip,
                    [&time = time_, s = sidecar_, done = std::move(done)] {
                      if (s->dead || !s->measures_again)
                        return done(absl::UnavailableError("connection refused"));
                      done(Measured(time, *s, s->drift));
                    });
  }

  void Arm(const v1::CapturePlan& plan, Nanos timeout, Callback<v1::ArmResponse> done) override {
    if (sidecar_->throws_in_arm) throw std::runtime_error("told to throw");
    v1::ArmResponse response;
    if (sidecar_->refusal != v1::OUTCOME_UNSPECIFIED) {
      response.set_refusal(sidecar_->refusal);
      response.set_message("refused");
    } else {
      Accept(plan);
      response.set_accepted(true);
      *response.mutable_report() = sidecar_->reports[plan.capture_id()];
    }
    time_.PostAfter(sidecar_->arm_answers ? kRoundTrip : timeout,
                    [s = sidecar_, response, done = std::move(done)] {
                      if (!s->arm_answers) return done(absl::DeadlineExceededError("no answer"));
                      if (!s->arm.ok()) return done(s->arm);
                      done(response);
                    });
  }

  std::shared_ptr<void> Watch(const std::string& capture_id, std::function<void(v1::Report)> report,
                              std::function<void(absl::Status)> ended) override {
    auto alive = std::make_shared<bool>(true);
    if (sidecar_->floods > 0) {
      const auto known = sidecar_->reports.find(capture_id);
      for (int i = 0; i < sidecar_->floods && known != sidecar_->reports.end(); ++i)
        report(known->second);
      if (!sidecar_->watch_ends.ok()) {
        time_.PostAfter(kRoundTrip, [s = sidecar_, ended] { ended(s->watch_ends); });
        return alive;
      }
    }
    Poll(time_, sidecar_, capture_id, std::weak_ptr<bool>(alive), v1::CAPTURE_STATE_UNSPECIFIED,
         std::move(report), std::move(ended));
    return alive;
  }

  void Cancel(const v1::CancelRequest& request, Nanos timeout,
              Callback<v1::CancelResponse> done) override {
    time_.PostAfter(sidecar_->dead ? timeout : kRoundTrip,
                    [done = std::move(done)] { done(v1::CancelResponse()); });
    if (sidecar_->dead) return;
    if (request.keep()) {
      sidecar_->kept.push_back(request.capture_id());
      v1::Report& report = sidecar_->reports[request.capture_id()];
      report.mutable_plan()->set_duration_ns(Nanos(std::chrono::seconds(1)).count());
      Complete(*sidecar_, report);
      return;
    }
    sidecar_->cancelled.push_back(request.capture_id());
    const auto known = sidecar_->reports.find(request.capture_id());
    if (known == sidecar_->reports.end() || known->second.state() == v1::DONE) return;
    known->second.set_state(v1::DONE);
    known->second.set_outcome(v1::CANCELLED);
    known->second.set_message(request.reason());
  }

  void ReadDigest(const v1::ReadDigestRequest&, Nanos timeout,
                  Callback<v1::ReadDigestResponse> done) override {
    time_.PostAfter(
        std::min(timeout, kRoundTrip + sidecar_->digest_takes),
        [s = sidecar_, late = sidecar_->digest_takes > timeout, done = std::move(done)] {
          if (s->dead) return done(absl::UnavailableError("connection refused"));
          if (late) return done(absl::DeadlineExceededError("no answer"));
          if (s->digest.empty()) return done(absl::UnimplementedError(""));
          v1::ReadDigestResponse response;
          response.set_digest(s->digest);
          done(std::move(response));
        });
  }

  void ReadEvidence(const v1::ReadEvidenceRequest& request, Nanos timeout,
                    Callback<v1::ReadEvidenceResponse> done) override {
    sidecar_->evidence_asked.push_back(request);
    time_.PostAfter(
        std::min(timeout, kRoundTrip + sidecar_->evidence_takes),
        [s = sidecar_, late = sidecar_->evidence_takes > timeout, done = std::move(done)] {
          if (s->dead) return done(absl::UnavailableError("connection refused"));
          if (late) return done(absl::DeadlineExceededError("no answer"));
          if (!s->evidence) return done(absl::UnimplementedError(""));
          done(*s->evidence);
        });
  }

  void Publish(const v1::PublishRequest& request, Nanos,
               Callback<v1::PublishResponse> done) override {
    time_.PostAfter(
        kRoundTrip + sidecar_->publish_takes, [s = sidecar_, request, done = std::move(done)] {
          if (s->dead) return done(absl::UnavailableError("connection refused"));
          if (!s->publish.ok()) return done(s->publish);
          s->published.push_back(request);
          v1::PublishResponse response;
          response.set_url("file:///logs/strobe.json");
          if (!request.evidence().empty()) response.set_evidence_url("file:///logs/evidence.json");
          response.set_evidence_written(static_cast<std::uint32_t>(request.evidence_files_size()));
          done(response);
        });
  }

  void Reclaim(const v1::ReclaimRequest& request, Nanos timeout,
               Callback<v1::ReclaimResponse> done) override {
    time_.PostAfter(sidecar_->dead ? timeout : kRoundTrip,
                    [s = sidecar_, request, done = std::move(done)] {
                      if (s->dead) return done(absl::UnavailableError("connection refused"));
                      if (!s->reclaim.ok()) return done(s->reclaim);
                      s->reclaimed.push_back(request);
                      done(v1::ReclaimResponse());
                    });
  }

 private:
  static void Complete(const FakeSidecar& sidecar, v1::Report& done) {
    done.set_state(v1::DONE);
    done.set_outcome(sidecar.ends_as);
    if (sidecar.ends_as != v1::OK) done.set_message("it went wrong");
    const bool writes_trace = sidecar.ends_as == v1::OK || sidecar.ends_as == v1::LATE_START ||
                              sidecar.ends_as == v1::NO_HOST_EVENTS ||
                              sidecar.ends_as == v1::NO_DEVICE_ACTIVITY;
    if (!writes_trace) return;
    const v1::CapturePlan& plan = done.plan();
    done.set_started_ns(plan.instant_ns() - plan.guard_ns() + sidecar.lateness.count());
    done.set_stopped_ns(plan.instant_ns() + plan.duration_ns() + plan.guard_ns());
    done.set_covers_window(done.started_ns() <= plan.instant_ns());
    if (plan.steps() > 0) {
      v1::RecordedSteps& steps = *done.mutable_steps();
      steps.set_loop(plan.step_loop());
      steps.set_first(plan.first_step());
      steps.set_last(plan.first_step() + plan.steps() - 1);
      steps.set_began_ns(plan.instant_ns());
      steps.set_ended_ns(plan.instant_ns() + plan.duration_ns());
    }
    done.set_bytes(1000);
    done.set_events(sidecar.events);
    done.set_url("file:///logs/" +
                 storage::TraceKey(sidecar.writes_into.empty() ? plan.run() : sidecar.writes_into,
                                   plan.worker()));
  }

  void Accept(const v1::CapturePlan& plan) {
    if (sidecar_->reports.count(plan.capture_id()) > 0) return;
    sidecar_->plans.push_back(plan);
    v1::Report report;
    report.set_capture_id(plan.capture_id());
    report.set_state(v1::ARMED);
    *report.mutable_plan() = plan;
    sidecar_->reports[plan.capture_id()] = report;
    const std::string id = plan.capture_id();
    const Nanos until_start =
        FromUnixNanos(plan.instant_ns() - plan.guard_ns()) - sidecar_->offset - time_.WallNow();
    const Nanos length = Nanos{plan.duration_ns() + 2 * plan.guard_ns()};
    time_.PostAfter(until_start + length / 2, [s = sidecar_, id] {
      s->dead = s->dead || s->dies;
      if (s->forgets) s->reports.erase(id);
    });
    time_.PostAfter(until_start + length + sidecar_->collect, [s = sidecar_, id] {
      const auto known = s->reports.find(id);
      if (known == s->reports.end() || s->dead || !s->finishes || known->second.state() == v1::DONE)
        return;
      Complete(*s, known->second);
    });
  }

  static void Poll(SimulatedTime& time, std::shared_ptr<FakeSidecar> s, std::string id,
                   std::weak_ptr<bool> alive, v1::CaptureState told,
                   std::function<void(v1::Report)> report,
                   std::function<void(absl::Status)> ended) {
    time.PostAfter(kRoundTrip, [&time, s, id, alive, told, report, ended] {
      if (alive.expired()) return;
      if (s->dead) return ended(absl::UnavailableError("connection refused"));
      const auto known = s->reports.find(id);
      if (known == s->reports.end()) return ended(absl::NotFoundError("no such capture"));
      const v1::CaptureState state = known->second.state();
      if (state != told) report(known->second);
      if (state == v1::DONE) return ended(absl::OkStatus());
      Poll(time, s, id, alive, state, report, ended);
    });
  }

  SimulatedTime& time_;
  const std::shared_ptr<FakeSidecar> sidecar_;
};

}  // namespace

std::shared_ptr<capture::Worker> FakeFleet::Connect(const capture::Target& target) {
  ++(*this)[target.name].connects;
  return std::make_shared<FakeWorker>(time_, sidecars_[target.name]);
}

}  // namespace strobe
