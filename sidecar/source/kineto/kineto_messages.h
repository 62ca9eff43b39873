// The datagrams of Kineto's on-demand protocol, as processes with PyTorch and their daemon exchange
// them: 40 bytes of header and a body, in this machine's byte order. They come from other
// processes, which may be hostile. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace strobe::source {

// More bytes than any datagram has that ParseKinetoMessage accepts.
inline constexpr std::size_t kKinetoRoom = 512;

struct KinetoMessage {
  enum class Kind {
    kPoll,      // "req": the process asks for a configuration.
    kRegister,  // "ctxt": the process asks how many processes there are. PyTorch does not send it.
  };
  Kind kind = Kind::kPoll;
  // False while the profiler of the process is in use. Only of polls.
  bool idle = false;
  // The process and its ancestors, in the process's own PID namespace.
  std::vector<std::uint32_t> pids{};
};

// InvalidArgument says what is wrong with the datagram.
absl::StatusOr<KinetoMessage> ParseKinetoMessage(std::string_view datagram);

// The answer to a poll. An empty text means that there is nothing to record.
std::string KinetoConfiguration(std::string_view text);
// The answer to a registration.
std::string KinetoCount(std::int32_t processes);

}  // namespace strobe::source
