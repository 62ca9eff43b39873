#include "sidecar/source/kineto/kineto_messages.h"

#include <array>
#include <cstring>

#include "common/base/strings.h"

namespace strobe::source {
namespace {

constexpr std::size_t kTypeBytes = 32;
constexpr std::size_t kHeaderBytes = sizeof(std::uint64_t) + kTypeBytes;
// A generous limit: Kineto sends at most 11 process IDs.
constexpr std::int32_t kMaxPids = 64;
constexpr std::int32_t kActivities = 2;  // The bit of a poll that asks for a recording.

absl::Status WrongDatagram(std::string_view what) {
  return absl::InvalidArgumentError(StrCat("the datagram's ", what));
}

template <typename T>
T Take(std::string_view& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

// Text that a NUL ends; the rest of the field must be NUL too.
std::string_view TypeOf(std::string_view field) {
  const std::size_t end = std::min(field.find('\0'), field.size());
  return field.find_first_not_of('\0', end) == std::string_view::npos ? field.substr(0, end) : "";
}

absl::StatusOr<KinetoMessage> ParsePoll(std::string_view body) {
  constexpr std::size_t kFixed = 2 * sizeof(std::int32_t) + sizeof(std::int64_t);
  if (body.size() < kFixed) return WrongDatagram("body is too short");
  KinetoMessage message;
  message.idle = (Take<std::int32_t>(body) & kActivities) != 0;
  const auto count = Take<std::int32_t>(body);
  Take<std::int64_t>(body);  // The job's number with Slurm.
  if (count < 1 || count > kMaxPids) return WrongDatagram("number of process ids is out of range");
  if (body.size() != static_cast<std::size_t>(count) * sizeof(std::int32_t))
    return WrongDatagram("body size does not match its number of process ids");
  while (!body.empty()) {
    const auto pid = Take<std::int32_t>(body);
    if (pid <= 0) return WrongDatagram("process id is not positive");
    message.pids.push_back(static_cast<std::uint32_t>(pid));
  }
  return message;
}

absl::StatusOr<KinetoMessage> ParseRegistration(std::string_view body) {
  if (body.size() != 2 * sizeof(std::int32_t) + sizeof(std::int64_t))
    return WrongDatagram("body size is not that of a registration");
  Take<std::int32_t>(body);  // The number of a GPU.
  const auto pid = Take<std::int32_t>(body);
  if (pid <= 0) return WrongDatagram("process id is not positive");
  return KinetoMessage{.kind = KinetoMessage::Kind::kRegister,
                       .pids = {static_cast<std::uint32_t>(pid)}};
}

std::string Compose(std::string_view type, std::string_view body) {
  const std::uint64_t size = body.size();
  std::array<char, kHeaderBytes> header{};
  std::memcpy(header.data(), &size, sizeof size);
  std::memcpy(header.data() + sizeof size, type.data(), type.size());
  return std::string(header.data(), header.size()).append(body);
}

}  // namespace

absl::StatusOr<KinetoMessage> ParseKinetoMessage(std::string_view datagram) {
  if (datagram.size() < kHeaderBytes) return WrongDatagram("header is too short");
  const auto size = Take<std::uint64_t>(datagram);
  const std::string_view type = TypeOf(datagram.substr(0, kTypeBytes));
  const std::string_view body = datagram.substr(kTypeBytes);
  if (size != body.size()) return WrongDatagram("size does not match its body");
  if (type == "req") return ParsePoll(body);
  if (type == "ctxt") return ParseRegistration(body);
  return WrongDatagram("type is unknown");
}

std::string KinetoConfiguration(std::string_view text) { return Compose("req", text); }

std::string KinetoCount(std::int32_t processes) {
  return Compose("ctxt",
                 std::string_view(reinterpret_cast<const char*>(&processes), sizeof processes));
}

}  // namespace strobe::source
