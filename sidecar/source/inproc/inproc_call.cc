#include "sidecar/source/inproc/inproc_call.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/base/file_descriptor.h"
#include "common/base/strings.h"
#include "common/protocol/device_mode.h"
#include "common/text/json.h"
#include "common/text/safe_text.h"
#include "sidecar/source/base/engine_work.h"
#include "sidecar/source/base/json_fields.h"

namespace strobe::source {

// A connection to a process's socket.
class InprocConnection {
 public:
  // Connects by a path through /proc/self/fd, which is short enough whatever the directory.
  InprocConnection(const std::string& directory, const Announcement& process) {
    const FileDescriptor folder(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const std::string path = StrCat("/proc/self/fd/", folder.get(), "/", process.socket);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (folder.get() < 0 || socket.get() < 0 || path.size() >= sizeof address.sun_path) return;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      socket_ = std::move(socket);
  }

  bool connected() const { return socket_.get() >= 0; }
  // False if nobody answers on the socket, or does not take the line. Does not block.
  bool Send(std::string_view line) {
    return send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(line.size());
  }
  // Waits for bytes for at most `limit`. False when the process is gone or says too much.
  bool Wait(Nanos limit) {
    if (buffer_.size() > kMaxBytes) return false;
    pollfd wanted{socket_.get(), POLLIN, 0};
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::max(limit, Nanos{0}));
    if (poll(&wanted, 1, static_cast<int>(ms.count())) <= 0) return true;
    char bytes[4096];
    const ssize_t size = recv(socket_.get(), bytes, sizeof bytes, 0);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    buffer_.append(bytes, static_cast<std::size_t>(size));
    return size > 0;
  }
  // The next line that has arrived.
  std::optional<std::string> Next() {
    const std::size_t end = buffer_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return line;
  }

 private:
  static constexpr std::size_t kMaxBytes = 16 << 10;  // The most that is kept of what has arrived.

  FileDescriptor socket_{};
  std::string buffer_{};
};

namespace {

using nlohmann::json;

constexpr std::size_t kMaxMessage = 500;
constexpr Nanos kLineWait = std::chrono::milliseconds(20);

// Takes the time if the object has it. Bounded, so that sums of two do not overflow.
void TakeTime(const json& object, const char* key, std::int64_t& time) {
  const auto known = NumberField<std::uint64_t>(object, key);
  if (known) time = static_cast<std::int64_t>(std::min<std::uint64_t>(*known, 1ull << 62));
}

// The place that a process tells; see Announcement::place.
Rank TakeRank(const json& object) {
  const auto number = [&](const char* key) {
    const auto known = NumberField<std::uint32_t>(object, key);
    return known ? std::int64_t{*known} : -1;
  };
  return RankOf(number("rank"), number("local_rank"), number("world_size"));
}

// The outcome with this name, if a process may claim it.
Outcome OutcomeOf(const std::string& name) {
  constexpr Outcome kClaimable[] = {
      Outcome::kBusy,      Outcome::kCancelled,           Outcome::kLateStart,
      Outcome::kNoSource,  Outcome::kProfilerStartFailed, Outcome::kSpoolFull,
      Outcome::kTruncated, Outcome::kVersionMismatch};
  const auto* found = std::find_if(std::begin(kClaimable), std::end(kClaimable),
                                   [&](Outcome outcome) { return Name(outcome) == name; });
  return found == std::end(kClaimable) ? Outcome::kProfilerStartFailed : *found;
}

// The part that all requests have.
json RequestOf(const char* op, const v1::CapturePlan& plan, const Announcement& process) {
  return {{"op", op},
          {"id", std::string(CutUtf8(plan.capture_id(), 128))},
          {"framework", process.framework},
          {"start_ns", plan.instant_ns() - plan.guard_ns()},
          {"duration_ns", plan.duration_ns() + 2 * plan.guard_ns()},
          {"tell_memory", plan.abort_memory_percent() > 0}};
}

std::string RequestLine(const json& request) { return JsonText(request) + "\n"; }

std::string NameOf(const Announcement& process) {
  return StrCat(process.framework, " in ", process.label());
}

}  // namespace

std::string InprocRequest(const v1::CapturePlan& plan, const Announcement& process,
                          const InprocLimits& limits) {
  const v1::Tracers& tracers = plan.tracers();
  json request = RequestOf("capture", plan, process);
  request["tracers"] = {{"host", std::min(tracers.host(), 3u)},
                        {"device", std::min(tracers.device(), 1u)},
                        {"python", std::min(tracers.python(), 1u)},
                        {"kernels_only", WantsOnlyKernels(tracers.device())},
                        {"detach", tracers.detach()}};
  // A Python trace is a trace of stacks to PyTorch.
  request["torch"] = {{"shapes", tracers.shapes()},
                      {"stacks", tracers.stacks() || tracers.python() > 0},
                      {"memory", tracers.memory()},
                      {"flops", tracers.flops()},
                      {"modules", tracers.modules()}};
  if (plan.steps() > 0) {
    request["step"] = {{"loop", plan.step_loop()},
                       {"first", plan.first_step()},
                       {"count", plan.steps()},
                       {"by_ns", plan.steps_by_ns()}};
  }
  request["max_bytes"] = std::min<std::uint64_t>(limits.max_bytes, 1ull << 62);
  request["may_stall"] = limits.may_stall;
  if (plan.max_pause_ns() > 0) request["max_pause_ns"] = plan.max_pause_ns();
  return RequestLine(request);
}

bool ReadInprocLine(std::string_view line, std::string_view who, InprocAnswer& answer) {
  const auto fail = [&](Outcome outcome, std::string_view why) {
    answer.verdict = {outcome, StrCat(who, ": ", why)};
    return true;
  };
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return fail(Outcome::kProfilerStartFailed, "did not send JSON");
  const std::string state = TextField(object, "state", kMaxMessage),
                    message = TextField(object, "message", kMaxMessage);
  if (std::string note = TextField(object, "note", kMaxMessage); !note.empty())
    answer.note = std::move(note);
  if (state == "prepared") answer.rank = TakeRank(object);
  answer.aside = object.value("aside", json(false)) == json(true);
  if (state == "refused" || state == "failed")
    return fail(OutcomeOf(TextField(object, "outcome", kMaxMessage)),
                message.empty() ? "refused" : message);
  TakeTime(object, "started_ns", answer.started_ns);
  TakeTime(object, "stopped_ns", answer.stopped_ns);
  TakeTime(object, "stop_took_ns", answer.stop_took_ns);
  if (state != "done") return false;
  answer.engine = EngineWorkIn(object);
  answer.file = TextField(object, "file", kMaxMessage);
  answer.format = TextField(object, "format", kMaxMessage);
  // The file will be removed: it must be a trace, and not, say, another process's announcement.
  const bool is_trace = (answer.format == "kineto" && answer.file.ends_with(".pt.trace.json")) ||
                        (answer.format == "xspace" && answer.file.ends_with(".xplane.pb"));
  if (!IsFileName(answer.file) || !is_trace)
    return fail(Outcome::kProfilerStartFailed, "did not name a trace file");
  answer.recorded = true;
  if (const std::string outcome = TextField(object, "outcome", kMaxMessage); !outcome.empty())
    fail(OutcomeOf(outcome), message);
  return true;
}

InprocAnswer CallProcess(const std::string& directory, const Announcement& process,
                         const std::string& request, const Cancellation& cancel,
                         const Cancellation& terminate, const InprocCallbacks& callbacks) {
  const std::string who = NameOf(process);
  InprocAnswer answer;
  bool stopped = false;
  const auto end = [&](Outcome outcome, std::string_view why) {
    if (!std::exchange(stopped, true)) callbacks.stopped();
    if (outcome != Outcome::kOk) answer.verdict = {outcome, StrCat(who, ": ", why)};
    return answer;
  };
  InprocConnection connection(directory, process);
  const bool sent = connection.Send(request);
  // A process that refused before it was asked has closed its end, and its reason can be read.
  if (!sent && !connection.connected())
    return end(Outcome::kNoSource, "does not answer on its socket");
  bool told = false;
  while (true) {
    while (const auto line = connection.Next()) {
      if (Contains(*line, "\"stopped\"") && !std::exchange(stopped, true)) callbacks.stopped();
      if (ReadInprocLine(*line, who, answer)) return end(Outcome::kOk, "");
    }
    if (cancel.cancelled()) return end(Outcome::kCancelled, "the recording was cancelled");
    const Nanos left = callbacks.until_deadline();
    if (left <= Nanos{0}) return end(Outcome::kDeadlineExceeded, "did not answer in time");
    if (terminate.cancelled() && !std::exchange(told, true)) connection.Send("{\"op\":\"stop\"}\n");
    if (connection.Wait(std::min(left, kLineWait))) continue;
    if (!sent) return end(Outcome::kNoSource, "does not answer on its socket");
    return end(Outcome::kWorkerLost,
               stopped ? "ended before it had saved its trace" : "was lost while it recorded");
  }
}

InprocHold::InprocHold(const std::string& directory, const Announcement& process,
                       const v1::CapturePlan& plan)
    : connection_(std::make_unique<InprocConnection>(directory, process)),
      was_asked_(connection_->Send(RequestLine(RequestOf("hold", plan, process)))) {}

InprocHold::~InprocHold() = default;

void InprocHold::Await(Nanos timeout) {
  if (was_asked_) connection_->Wait(timeout);
  Read();
}

void InprocHold::Release() { connection_->Send("{\"op\":\"release\"}\n"); }

bool InprocHold::WantsBack() {
  if (wanted_) return true;
  connection_->Wait(Nanos{0});
  Read();
  return wanted_;
}

void InprocHold::Read() {
  while (const auto line = connection_->Next()) {
    const json object = json::parse(*line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) continue;
    if (Rank rank = TakeRank(object)) rank_ = std::move(rank);
    const std::string state = TextField(object, "state", kMaxMessage);
    wanted_ = wanted_ || state == "yield";
    safe_ = safe_ || (state == "held" && object.value("safe", json(false)) == json(true));
    if (const std::string why = TextField(object, "message", kMaxMessage);
        !why.empty() && (state == "held" || state == "refused" || state == "failed"))
      why_unsafe_ = why;
    if (state == "held") note_ = TextField(object, "note", kMaxMessage);
    leads_ = leads_ && object.value("leads", json(true)) != json(false);
  }
}

}  // namespace strobe::source
