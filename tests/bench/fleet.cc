// fleet PORT [DIGESTS [EVIDENCE]]: simulates the sidecars of a whole cluster in one process. Serves
// strobe.v1.Worker on every loopback address; the address that a client calls identifies the
// worker. Nothing is recorded: a capture is armed, and ends Ok after its window. When a capture's
// first worker ends, prints
//   capture ID armed N first FIRST_NS last LAST_NS
// N is the number of its armed workers; FIRST_NS and LAST_NS are the times at which the first and
// the last of them were armed. With a directory of digests (merge_digests write), each worker tells
// one of them as the digest of its trace: that with the number at the end of its name. With a
// directory of evidence, the first worker that is asked for it tells the files of its folder 0, the
// next one those of 1, as long after the question as a sidecar does.
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/version.h"
#include "strobe/v1/digest.pb.h"
#include "strobe/v1/worker.grpc.pb.h"

namespace strobe {
namespace {

using grpc::CallbackServerContext;

std::int64_t NowNs() { return ToUnixNanos(SystemClock().WallNow()); }

// By name.
std::map<std::string, std::string> ReadFiles(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    files[entry.path().filename()] = bytes.str();
  }
  return files;
}

template <typename Reactor>
Reactor* Finished(Reactor* reactor, grpc::Status status = grpc::Status::OK) {
  reactor->Finish(std::move(status));
  return reactor;
}

class Pong final : public grpc::ServerBidiReactor<v1::ClockPing, v1::ClockPong> {
 public:
  Pong() { StartRead(&ping_); }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    pong_.set_sequence(ping_.sequence());
    pong_.set_received_ns(NowNs());
    pong_.set_sent_ns(NowNs());
    StartWrite(&pong_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    StartRead(&ping_);
  }
  void OnDone() override { delete this; }

 private:
  v1::ClockPing ping_;
  v1::ClockPong pong_;
};

class Fleet;

// Writes the current report when the watch begins, and the final one when the capture has ended.
class Watcher final : public grpc::ServerWriteReactor<v1::Report> {
 public:
  Watcher(Fleet& fleet, std::string key, v1::Report now);
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void Ended(const v1::Report& report);

 private:
  void WriteNext();

  Fleet& fleet_;
  const std::string key_;
  std::mutex mutex_;
  v1::Report writing_, last_;
  bool busy_ = true, ended_ = false, finished_ = false;
};

class Fleet final : public v1::Worker::CallbackService {
 public:
  Fleet(std::vector<std::string> digests, std::string evidence)
      : digests_(std::move(digests)),
        evidence_(std::move(evidence)),
        timer_([this] { EndCaptures(); }) {
    timer_.detach();
  }

  grpc::ServerUnaryReactor* Describe(CallbackServerContext* context,
                                     const v1::DescribeRequest* request,
                                     v1::DescribeResponse* response) override {
    response->set_version(kVersion);
    response->set_protocol(kWorkerProtocol);
    v1::Source& source = *response->add_sources();
    source.set_kind(v1::SOURCE_FRAMEWORK);
    source.set_ready(true);
    response->set_lead_ns(1'000'000);
    const std::lock_guard lock(mutex_);
    const auto known = reports_.find(Key(*context, request->capture_id()));
    if (known != reports_.end()) *response->mutable_report() = known->second;
    return Finished(context->DefaultReactor());
  }

  grpc::ServerBidiReactor<v1::ClockPing, v1::ClockPong>* ProbeClock(
      CallbackServerContext*) override {
    return new Pong();
  }

  grpc::ServerUnaryReactor* Arm(CallbackServerContext* context, const v1::ArmRequest* request,
                                v1::ArmResponse* response) override {
    const std::int64_t now = NowNs();
    const v1::CapturePlan& plan = request->plan();
    const std::lock_guard lock(mutex_);
    const auto [report, fresh] = reports_.try_emplace(Key(*context, plan.capture_id()));
    if (fresh) {
      report->second.set_capture_id(plan.capture_id());
      report->second.set_state(v1::ARMED);
      *report->second.mutable_plan() = plan;
      ends_.emplace(plan.instant_ns() + plan.duration_ns() + plan.guard_ns(), report->first);
      Armed& armed = armed_[plan.capture_id()];
      if (armed.workers++ == 0) armed.first = now;
      armed.last = now;
    }
    response->set_accepted(true);
    *response->mutable_report() = report->second;
    return Finished(context->DefaultReactor());
  }

  grpc::ServerWriteReactor<v1::Report>* Watch(CallbackServerContext* context,
                                              const v1::WatchRequest* request) override {
    const std::lock_guard lock(mutex_);
    const std::string key = Key(*context, request->capture_id());
    auto* watcher = new Watcher(*this, key, reports_[key]);
    watchers_[key].insert(watcher);
    return watcher;
  }

  grpc::ServerUnaryReactor* Cancel(CallbackServerContext* context, const v1::CancelRequest*,
                                   v1::CancelResponse* response) override {
    response->set_known(true);
    return Finished(context->DefaultReactor());
  }

  grpc::ServerUnaryReactor* ReadDigest(CallbackServerContext* context,
                                       const v1::ReadDigestRequest* request,
                                       v1::ReadDigestResponse* response) override {
    if (digests_.empty())
      return Finished(context->DefaultReactor(), {grpc::StatusCode::NOT_FOUND, "no digests"});
    const std::string& worker = request->worker();
    const std::size_t digits = worker.find_last_not_of("0123456789") + 1;
    const std::size_t number = std::strtoull(worker.c_str() + digits, nullptr, 10);
    response->set_digest(DigestOf(number, PlannedOffset(*context, request->capture_id())));
    return Finished(context->DefaultReactor());
  }

  grpc::ServerUnaryReactor* Publish(CallbackServerContext* context,
                                    const v1::PublishRequest* request,
                                    v1::PublishResponse* response) override {
    response->set_url(request->run() + "/strobe.json");
    if (!request->evidence().empty()) response->set_evidence_url(request->run() + "/evidence.json");
    response->set_evidence_written(static_cast<std::uint32_t>(request->evidence_files_size()));
    return Finished(context->DefaultReactor());
  }

  grpc::ServerUnaryReactor* ReadEvidence(CallbackServerContext* context,
                                         const v1::ReadEvidenceRequest*,
                                         v1::ReadEvidenceResponse* response) override {
    std::string folder = evidence_;
    {
      const std::lock_guard lock(mutex_);
      const auto rank = ranks_.try_emplace(Key(*context, ""), ranks_.size()).first;
      folder += "/" + std::to_string(rank->second);
    }
    auto* const reactor = context->DefaultReactor();
    std::thread([reactor, response, folder] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1600));
      for (auto& [name, content] : ReadFiles(folder)) {
        v1::EvidenceFile& file = *response->add_files();
        file.set_name(name);
        file.set_content(std::move(content));
      }
      response->set_looked_at_ns(NowNs());
      Finished(reactor);
    }).detach();
    return reactor;
  }

  void Forget(const std::string& key, Watcher* watcher) {
    const std::lock_guard lock(mutex_);
    const auto found = watchers_.find(key);
    if (found == watchers_.end()) return;
    found->second.erase(watcher);
    if (found->second.empty()) watchers_.erase(found);
  }

 private:
  struct Armed {
    int workers = 0;
    std::int64_t first = 0, last = 0;
  };

  static std::string Key(const CallbackServerContext& context, const std::string& capture) {
    const grpc::string_ref address = context.ExperimentalGetAuthority();
    return std::string(address.data(), address.size()) + " " + capture;
  }

  // The worker's clock minus the operator's, as the operator measured it before it planned.
  std::int64_t PlannedOffset(const CallbackServerContext& context, const std::string& capture) {
    const std::lock_guard lock(mutex_);
    const auto known = reports_.find(Key(context, capture));
    return known == reports_.end() ? 0 : known->second.plan().clock_offset_ns();
  }

  // The digest with the offset of the plan, as a sidecar writes it. All clocks are this machine's,
  // so that offset is the error of the measurement. A field that occurs twice has its last value.
  std::string DigestOf(std::size_t number, std::int64_t planned_offset) const {
    const std::string& digest = digests_[number % digests_.size()];
    v1::Digest offset;
    offset.ParseFromString(digest);
    const std::int64_t sum = offset.clock_offset_ns() + planned_offset;
    offset.Clear();
    offset.set_clock_offset_ns(sum);
    return digest + offset.SerializeAsString();
  }

  void EndCaptures() {
    while (true) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const std::lock_guard lock(mutex_);
      while (!ends_.empty() && ends_.begin()->first <= NowNs()) {
        const std::string key = ends_.begin()->second;
        ends_.erase(ends_.begin());
        v1::Report& report = reports_[key];
        const v1::CapturePlan& plan = report.plan();
        report.set_state(v1::DONE);
        report.set_outcome(v1::OK);
        report.set_started_ns(plan.instant_ns() - plan.guard_ns() + 100'000);
        report.set_stopped_ns(plan.instant_ns() + plan.duration_ns() + plan.guard_ns());
        report.set_covers_window(true);
        report.set_bytes(1'000'000);
        report.set_events(1000);
        report.set_url("file:///logs/" + plan.worker());
        for (Watcher* watcher : watchers_[key]) watcher->Ended(report);
        if (const auto armed = armed_.extract(plan.capture_id()); !armed.empty()) {
          std::printf("capture %s armed %d first %lld last %lld\n", plan.capture_id().c_str(),
                      armed.mapped().workers, static_cast<long long>(armed.mapped().first),
                      static_cast<long long>(armed.mapped().last));
          std::fflush(stdout);
        }
      }
    }
  }

  const std::vector<std::string> digests_;
  const std::string evidence_;
  std::mutex mutex_;
  std::map<std::string, std::size_t> ranks_;   // By address.
  std::map<std::string, v1::Report> reports_;  // The key is address and capture.
  std::map<std::string, std::set<Watcher*>> watchers_;
  std::multimap<std::int64_t, std::string> ends_;
  std::map<std::string, Armed> armed_;  // The key is the capture.
  std::thread timer_;
};

Watcher::Watcher(Fleet& fleet, std::string key, v1::Report now)
    : fleet_(fleet), key_(std::move(key)), writing_(std::move(now)) {
  ended_ = writing_.state() == v1::DONE;
  last_ = writing_;
  StartWrite(&writing_);
}

void Watcher::WriteNext() {
  if (finished_ || busy_) return;
  if (writing_.state() == v1::DONE) {
    finished_ = true;
    return Finish(grpc::Status::OK);
  }
  if (!ended_) return;
  busy_ = true;
  writing_ = last_;
  StartWrite(&writing_);
}

void Watcher::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  busy_ = false;
  if (ok) return WriteNext();
  if (!std::exchange(finished_, true)) Finish(grpc::Status::CANCELLED);
}

void Watcher::OnCancel() {
  const std::lock_guard lock(mutex_);
  if (!busy_ && !std::exchange(finished_, true)) Finish(grpc::Status::CANCELLED);
}

void Watcher::Ended(const v1::Report& report) {
  const std::lock_guard lock(mutex_);
  last_ = report;
  ended_ = true;
  WriteNext();
}

void Watcher::OnDone() {
  fleet_.Forget(key_, this);
  delete this;
}

// The content of the directory's files, in the order of their names.
std::vector<std::string> ContentsOf(const std::string& directory) {
  std::vector<std::string> contents;
  for (auto& [name, bytes] : ReadFiles(directory)) contents.push_back(std::move(bytes));
  return contents;
}

}  // namespace
}  // namespace strobe

int main(int argc, char** argv) {
  strobe::Fleet fleet(argc > 2 ? strobe::ContentsOf(argv[2]) : std::vector<std::string>(),
                      argc > 3 ? argv[3] : "");
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("0.0.0.0:" + std::string(argc > 1 ? argv[1] : "0"),
                           grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&fleet);
  const auto server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return 1;
  std::printf("serves on port %d\n", port);
  std::fflush(stdout);
  server->Wait();
}
