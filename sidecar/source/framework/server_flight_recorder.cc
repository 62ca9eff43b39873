#include "sidecar/source/framework/server_flight_recorder.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <utility>

#include "common/base/files.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/new_file.h"
#include "common/base/parallel.h"
#include "common/base/strings.h"
#include "sidecar/source/base/profile_call.h"
#include "sidecar/source/base/profile_calls.h"
#include "sidecar/source/base/server_risks.h"

namespace strobe::source {
namespace {

using grpc::StatusCode;
using tensorflow::ProfilerService;

constexpr Nanos kBeginWithin = std::chrono::seconds(5), kEndWithin = std::chrono::seconds(2);
constexpr int kMaxSmallAnswer = 64 << 10;
constexpr std::size_t kMaxReasonBytes = 160;

// Servers have it since the end of January 2026. Those of that month have a session that nobody can
// end, and earlier commits have other names for all three methods.
constexpr char kStopMethod[] = "/tensorflow.ProfilerService/StopContinuousProfiling";

// The options with which XProf begins its snapshot mode. With host annotations, which have no
// circular buffer, the process's memory would grow without end.
tensorflow::ProfileRequest SessionRequest() {
  tensorflow::ProfileRequest request;
  request.set_session_id("strobe-flight-recorder");
  request.set_emit_xspace(true);
  request.set_repository_root(std::string(kNoRepository));
  tensorflow::ProfileOptions& options = *request.mutable_opts();
  options.set_version(1);
  options.set_device_tracer_level(1);
  options.set_enable_hlo_proto(true);
  options.set_raise_error_on_start_failure(true);
  options.set_duration_ms(2000);
  options.set_session_id(request.session_id());
  (*options.mutable_advanced_configuration())["tpu_circular_buffer_tracing"].set_bool_value(true);
  return request;
}

// Tells a server from the next one at its address: by the inode of the socket on which it listens.
// Empty if nothing on this machine listens there.
std::string LifeOf(const std::string& address) {
  constexpr unsigned kListening = 0x0a;
  const auto wanted = std::strtoul(address.c_str() + address.rfind(':') + 1, nullptr, 10);
  for (const char* path : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream table(path);
    std::string line;
    while (std::getline(table, line)) {
      unsigned port = 0, state = 0;
      unsigned long inode = 0;
      // Index, local address:port, remote address:port, state, five further fields, inode.
      const int read = std::sscanf(
          line.c_str(), " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s %lu",
          &port, &state, &inode);
      if (read == 3 && port == wanted && state == kListening) return StrCat(address, " ", inode);
    }
  }
  return "";
}

std::set<std::string> ReadState(const std::string& path) {
  if (path.empty()) return {};
  const std::vector<std::string> lines = Split(ReadTextFile(path).value_or(""), '\n');
  return {lines.begin(), lines.end()};
}

// Begins a session where none runs. ALREADY_EXISTS if one runs, whosesoever it is; UNIMPLEMENTED if
// the server has none that can be ended.
grpc::Status BeginSession(const std::string& address, bool is_known) {
  const std::shared_ptr<grpc::Channel> channel = ConnectToProfiler(address, kMaxSmallAnswer);
  if (!is_known) {
    const StatusCode stop =
        AskForMethod({&channel, 1}, kStopMethod, DeadlineIn(kEndWithin)).front();
    if (stop != StatusCode::INTERNAL)
      return {stop == StatusCode::UNIMPLEMENTED ? stop : StatusCode::UNAVAILABLE, ""};
  }
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(kBeginWithin));
  tensorflow::ContinuousProfilingResponse response;
  return ProfilerService::NewStub(channel)->StartContinuousProfiling(&context, SessionRequest(),
                                                                     &response);
}

// Why a server with this answer does not record for us.
std::string Reason(const grpc::Status& begun) {
  switch (begun.error_code()) {
    case StatusCode::ALREADY_EXISTS:
      return "continuous profiling of another client runs in its process";
    case StatusCode::UNIMPLEMENTED:
      return "its server has no continuous profiling; upgrade the framework";
    case StatusCode::UNAVAILABLE:
    case StatusCode::DEADLINE_EXCEEDED:
      return "its server does not answer";
    default:
      return StrCat("its server refused continuous profiling: ",
                    begun.error_message().substr(0, kMaxReasonBytes));
  }
}

}  // namespace

ServerFlightRecorder::ServerFlightRecorder(std::function<std::vector<std::string>()> servers,
                                           std::string state_file, Nanos look)
    : servers_(std::move(servers)),
      state_file_(std::move(state_file)),
      look_(look),
      earlier_(ReadState(state_file_)),
      thread_([this] { RunThread("flight_recorder", [this] { Run(); }); }) {}

ServerFlightRecorder::~ServerFlightRecorder() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
  EndSessions();
}

std::string ServerFlightRecorder::WhyNot(const std::string& address) const {
  MutexLock lock(&mutex_);
  const auto found = why_not_.find(address);
  return found == why_not_.end() ? "its continuous profiling has not begun" : found->second;
}

ServerFlightRecorder::Pause::Pause(ServerFlightRecorder& recorder) : recorder_(recorder) {
  MutexLock lock(&recorder_.mutex_);
  recorder_.paused_ = true;
  recorder_.mutex_.AwaitFor(kEndWithin, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(recorder_.mutex_) {
    return !recorder_.attending_;
  });
}

ServerFlightRecorder::Pause::~Pause() {
  MutexLock lock(&recorder_.mutex_);
  recorder_.paused_ = false;
  recorder_.hurry_ = true;
}

void ServerFlightRecorder::EndSessions() {
  std::vector<std::string> ours;
  {
    MutexLock lock(&mutex_);
    for (const auto& [address, why_not] : why_not_) {
      if (why_not.empty()) ours.push_back(address);
    }
  }
  ParallelFor(ours.size(), ours.size(), [&](std::size_t i) { End(ours[i]); });
}

void ServerFlightRecorder::OnEnded(const std::string& address) {
  Set(address, "its continuous profiling has ended");
}

void ServerFlightRecorder::Run() {
  const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || hurry_; };
  while (true) {
    const std::vector<std::string> servers = servers_();
    for (const std::string& address : servers) Attend(address);
    std::vector<std::string> others;
    {
      MutexLock lock(&mutex_);
      for (const auto& [address, why_not] : why_not_) {
        if (std::find(servers.begin(), servers.end(), address) == servers.end())
          others.push_back(address);
      }
    }
    for (const std::string& address : others) End(address);
    MutexLock lock(&mutex_);
    mutex_.AwaitFor(look_, due);
    if (stopping_) return;
    hurry_ = false;
  }
}

void ServerFlightRecorder::Attend(const std::string& address) {
  bool was_ours = false;
  {
    MutexLock lock(&mutex_);
    if (paused_ || stopping_) return;
    const auto found = why_not_.find(address);
    was_ours = found != why_not_.end() && found->second.empty();
    attending_ = true;
  }
  const grpc::Status begun = BeginSession(address, was_ours);
  const bool runs = begun.error_code() == StatusCode::ALREADY_EXISTS;
  bool ours = begun.ok();
  if (runs || begun.error_code() == StatusCode::DEADLINE_EXCEEDED) ours = was_ours;
  // Once it is known whose session runs, the state file no longer counts.
  const std::string life = runs || ours ? LifeOf(address) : "";
  if (!life.empty() && earlier_.erase(life) > 0) ours = true;
  Set(address, ours ? "" : Reason(begun));
  MutexLock lock(&mutex_);
  attending_ = false;
}

void ServerFlightRecorder::End(const std::string& address) {
  if (!WhyNot(address).empty()) return;
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(kEndWithin));
  tensorflow::StopContinuousProfilingResponse response;
  const grpc::Status status =
      ProfilerService::NewStub(ConnectToProfiler(address, kMaxSmallAnswer))
          ->StopContinuousProfiling(&context, tensorflow::StopContinuousProfilingRequest(),
                                    &response);
  if (status.error_code() != StatusCode::DEADLINE_EXCEEDED) OnEnded(address);
}

void ServerFlightRecorder::Set(const std::string& address, const std::string& why_not) {
  bool ended = false;
  {
    MutexLock lock(&mutex_);
    const auto [known, is_new] = why_not_.try_emplace(address, why_not);
    if (!is_new && known->second == why_not) return;
    ended = !is_new && known->second.empty();
    known->second = why_not;
    Keep();
  }
  if (why_not.empty())
    return LogInfo("a profiler server records TPUs at all times", {{"server", address}});
  Log(ended ? LogLevel::kInfo : LogLevel::kWarning,
      "a profiler server does not record TPUs at all times",
      {{"server", address}, {"reason", why_not}});
}

void ServerFlightRecorder::Keep() const {
  if (state_file_.empty()) return;
  std::string text;
  for (const auto& [address, why_not] : why_not_) {
    if (why_not.empty()) text += LifeOf(address) + '\n';
  }
  NewFile file(state_file_);
  (void)file.Write(text);  // Finish returns its error.
  if (const absl::Status kept = file.Finish(); !kept.ok())
    LogWarning("the flight recorder's state cannot be kept", {{"error", MessageOf(kept)}});
}

}  // namespace strobe::source
