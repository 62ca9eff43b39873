// Fuzz targets for answers of an API server, configuration files, a trainer's ring files, and
// requests to an HTTP port.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "agent/wire/ring_writer.h"
#include "collector/store/store_options.h"
#include "collector/trace/xplane/space.h"
#include "common/base/strings.h"
#include "common/http/server.h"
#include "common/text/safe_text.h"
#include "operator/config/config.h"
#include "operator/job/pod.h"
#include "operator/job/shape.h"
#include "operator/job/targets.h"
#include "operator/kube/reflector.h"
#include "operator/objects/request.h"
#include "operator/trigger/alert_payload.h"
#include "sidecar/source/agent/process_row.h"
#include "sidecar/source/agent/recorded_program.h"
#include "sidecar/source/agent/ring_files.h"
#include "sidecar/source/kineto/kineto_messages.h"
#include "tensorflow/xplane.pb.h"
#include "tests/fakes/scripted_transport.h"
#include "tests/fuzz/targets.h"

namespace strobe::fuzz {
namespace {

// A temporary directory, in memory if possible.
class Scratch {
 public:
  Scratch() {
    std::string pattern = std::filesystem::is_directory("/dev/shm") ? "/dev/shm/strobe-fuzz-XXXXXX"
                                                                    : "/tmp/strobe-fuzz-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Returns the ring file of a program that recorded a little on a thread and on a device, which the
// flight recorder keeps armed.
std::string GoodRings(const std::string& directory) {
  wire::RingFile file =
      wire::RingFile::Create(directory, {.max_rings = 2, .ring_words = 1024, .device_words = 1024})
          .file;
  if (!file || !file.Publish() || !file.Reserve(0, 1024) || !file.ReserveDevice()) std::abort();
  file.header()->rings = 1;
  wire::RingWriter thread(file.ring(0), file.data(0), file.ring_words());
  const char name[wire::kThreadNameBytes] = "trainer";
  thread.Thread(7, name);
  for (std::uint64_t i = 0; i < 20; ++i)
    thread.Scope(1, 1000 + 10 * i, 1005 + 10 * i, "train#step_num=" + std::to_string(i) + "#");
  wire::RingWriter device(file.device_ring(), file.device_data(), file.device_words());
  device.Text(1, "kernel");
  device.Record(wire::RecordType::kDevice, wire::DeviceRecord{});
  for (int i = 0; i < 5; ++i) {
    device.Record(wire::RecordType::kKernel, wire::KernelRecord{});
    device.Record(wire::RecordType::kCopy, wire::CopyRecord{});
    device.Record(wire::RecordType::kCall, wire::CallRecord{});
  }
  device.Record(wire::RecordType::kClock, wire::ClockRecord{});
  file.header()->device_control = 7;
  file.header()->device_state = wire::DeviceState(7, wire::DevicePhase::kArmed);
  file.header()->device_until = wire::kMaxPosition;
  std::ifstream stream(file.path(), std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// Parses a watched object as every type that the operator reads.
void ReadObject(const kube::Json& object) {
  const job::PodInfo pod = job::ParsePod(object);
  const job::Shape shape = job::ParseJob({"", "JobSet", "x"}, object);
  job::SelectTargets({}, {}, {pod, pod}, &shape);
  if (const absl::StatusOr<objects::ProfileRequest> request = objects::ParseRequest(object);
      request.ok())
    objects::StatusToJson(*request, request->status);
}

// Sends the bytes, ends the sending side, and returns all that the server answers.
std::string Ask(int port, std::string_view bytes) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    while (!bytes.empty()) {
      const ssize_t sent = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    // The server must now answer or close the connection, even if it waits for more.
    shutdown(connection, SHUT_WR);
    char piece[4096];
    for (ssize_t got; (got = recv(connection, piece, sizeof piece, 0)) > 0;)
      answer.append(piece, static_cast<std::size_t>(got));
  }
  close(connection);
  return answer;
}

}  // namespace

bool Watch(std::string_view bytes) {
  static const SystemClock clock;
  const auto transport = std::make_shared<kube::ScriptedTransport>();
  kube::Client client(clock, transport);
  kube::ObjectCache cache;
  // The first line is the list and the rest is the watch, in chunks that end at arbitrary places.
  const std::size_t line = std::min(bytes.find('\n'), bytes.size());
  transport->OnUnary([list = std::string(bytes.substr(0, line))](const kube::HttpRequest&) {
    return kube::HttpResponse{200, list, std::nullopt};
  });
  std::vector<std::string> chunks;
  for (std::string_view rest = bytes.substr(std::min(line + 1, bytes.size())); !rest.empty();) {
    const std::size_t size = std::min<std::size_t>(rest.size(), 1 + rest.size() * 7 % 97);
    chunks.emplace_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  transport->AddStream(std::move(chunks));
  std::atomic<bool> any_read{false};
  kube::Reflector reflector(clock, client, {"/things", std::chrono::seconds(290)}, cache,
                            [&](const std::string& key) {
                              const kube::Object object = cache.Get(key);
                              if (!object) return;
                              ReadObject(*object);
                              any_read = true;
                            });
  reflector.Start();
  // The reflector has read the stream when it asks for the next one or has failed.
  const kube::ReflectorStats& stats = reflector.stats();
  while (stats.failures == 0 && stats.watches < 2) std::this_thread::yield();
  return any_read;
}

bool Alerts(std::string_view bytes) {
  const absl::StatusOr<trigger::AlertPayload> payload = trigger::ParseAlerts(std::string(bytes));
  const auto require = [](bool holds) {
    if (!holds) std::abort();
  };
  if (!payload.ok()) {
    require(IsUtf8(MessageOf(payload.status())));
    return false;
  }
  require(IsUtf8(payload->why_invalid) && payload->alerts.size() <= trigger::kMaxAlertsPerPost);
  for (const trigger::Alert& alert : payload->alerts) {
    require(!alert.fingerprint.empty() &&
            alert.fingerprint.size() <= trigger::kMaxFingerprintBytes);
    for (const auto* texts : {&alert.labels, &alert.annotations}) {
      require(texts->size() <= trigger::kMaxAlertLabels);
      for (const auto& [name, value] : *texts)
        require(!name.empty() && name.size() <= trigger::kMaxAlertNameBytes && IsUtf8(name) &&
                value.size() <= trigger::kMaxAlertValueBytes && IsUtf8(value));
    }
  }
  return !payload->alerts.empty();
}

bool Yaml(std::string_view bytes) {
  const bool is_config = config::ParseConfig(bytes, "file").ok();
  return storage::ParseStorageConfig(bytes, "file").ok() || is_config;
}

// Writes a number over a position or a state of the program: `where` chooses a word of the file's
// header or of the header of one of the two rings, `what` the number.
void Forge(std::uint8_t where, std::uint8_t what, const std::string& good, std::string& rings) {
  constexpr std::size_t kHeaderWords = sizeof(wire::FileHeader) / 8;
  constexpr std::size_t kRingWords = sizeof(wire::RingHeader) / 8;
  const auto& header = *reinterpret_cast<const wire::FileHeader*>(good.data());
  const std::size_t device = header.device_offset, ring = header.rings_offset;
  const std::size_t at = where < 128   ? std::size_t{where} % kHeaderWords * 8
                         : where < 192 ? ring + std::size_t{where} % kRingWords * 8
                                       : device + std::size_t{where} % kRingWords * 8;
  if (at + 8 > rings.size()) return;
  constexpr std::array<std::uint64_t, 8> kNumbers = {
      0, ~0ull, ~0ull - 1024, 1ull << 63, wire::kMaxPosition, wire::kMaxPosition + 1, 1024, 513};
  const std::uint64_t number = kNumbers[what % kNumbers.size()] + what / kNumbers.size();
  std::memcpy(&rings[at], &number, sizeof number);
}

bool Rings(std::string_view bytes) {
  static const Scratch scratch;
  static const std::string good = GoodRings(scratch.path());
  // The input is read in threes. 0xfe calls Forge with the next two bytes. Otherwise the first two
  // are the place and the third its new value; if the first is 0xff, the file also ends there.
  std::string rings = good;
  for (std::size_t i = 0; i + 2 < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
    if (byte(i) == 0xfe) {
      if (rings.size() == good.size()) Forge(byte(i + 1), byte(i + 2), good, rings);
      continue;
    }
    const std::size_t at = (byte(i) << 8 | byte(i + 1)) % rings.size();
    rings[at] = bytes[i + 2];
    if (byte(i) == 0xff) rings.resize(at + 1);
  }
  const std::string path = scratch.path() + "/1-1.rings";
  std::ofstream(path, std::ios::binary | std::ios::trunc) << rings;
  source::OpenedRings opened = source::OpenRings(path);
  if (opened.error != wire::RingFileError::kNone) return false;
  source::RecordedProgram program(std::move(opened.rings), source::RecordedProgram::From::kOldest,
                                  1);
  program.SwitchOn(~0u);
  program.records().ArmDevice(std::chrono::seconds(1), {}, /*since_ns=*/0, /*mode=*/0);
  std::uint64_t budget = 1 << 20;
  wire::RecordBuffer buffer;
  program.Drain(buffer, budget);
  // Simulates a program that truncates its file while the file is read.
  if (!bytes.empty() && bytes[0] % 4 == 1) {
    std::filesystem::resize_file(path, 4096);
    program.Drain(buffer, budget);
  }
  program.SwitchOff();
  xplane::PlaneBuilder host(xplane::kHostPlane);
  const source::TraceSpan span{.start_ns = 0, .stop_ns = 1'000'000'000, .recording_ns = 0};
  source::DevicePlanes devices((span.stop_ns - span.start_ns) * 1000);
  program.records().Build(span, program.identity().label, host, devices);
  source::JudgeProgram(program.Facts(),
                       {.start_ns = 0, .stop_ns = span.stop_ns, .end_ns = span.stop_ns}, true);
  program.records().KeptOnly(span);
  program.records().DevicesReachedBack(span);
  program.records().DeviceClockJumpNs();
  const std::string trace = host.Encode() + devices.Encode();
  if (!xplane::Space::Read(trace).ok() || !tensorflow::profiler::XSpace().ParseFromString(trace))
    std::abort();
  return program.records().kept() > 0;
}

bool Kineto(std::string_view bytes) {
  const auto message = source::ParseKinetoMessage(bytes);
  if (message.ok() && (message->pids.empty() || bytes.size() > source::kKinetoRoom)) std::abort();
  return message.ok();
}

bool Http(std::string_view bytes) {
  static const std::unique_ptr<http::Server> server =
      *http::Server::Start({.listen = "127.0.0.1:0", .max_body_bytes = 4096},
                           {{"/page", [](const http::Request& request) {
                               return http::Page{200, request.body, "text/plain", {}, true};
                             }}});
  static int asked = 0;
  const bool answered = Ask(server->port(), bytes).starts_with("HTTP/1.1 200");
  // The server must still answer other clients.
  if (++asked % 64 == 0 &&
      !Ask(server->port(), "GET /page HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 200"))
    std::abort();
  return answered;
}

}  // namespace strobe::fuzz
