// The sockets of Kineto's on-demand protocol. They have abstract names, which belong to the
// network namespace, or names in a directory.
//
// A process with PyTorch aborts when it receives a datagram from a socket without a name, or from
// one of the other kind. Everything is therefore sent from sockets that are bound.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/file_descriptor.h"

namespace strobe::source {

// The directory of sockets; empty for abstract names. Processes must have the very same text in
// $KINETO_IPC_SOCKET_DIR, or nothing in the other case.
using KinetoSocketDir = std::string;

// Binds the daemon's socket. AlreadyExists if another daemon has it; an error says what is in the
// way.
absl::StatusOr<FileDescriptor> BindKinetoDaemon(const KinetoSocketDir& directory);
// Removes the name of the daemon's socket.
void RemoveKinetoDaemon(const KinetoSocketDir& directory);

// A socket that sends to this process only; none if the process has closed its own.
FileDescriptor ConnectKinetoClient(const KinetoSocketDir& directory, const std::string& client);
// False if the process has closed its socket. Sends nothing.
bool IsKinetoClientThere(const KinetoSocketDir& directory, const std::string& client);
// True if the process has not read all that was sent over this socket.
bool IsKinetoUnread(const FileDescriptor& socket);

struct KinetoDatagram {
  std::string client{};  // The name of the sender's socket; empty if it is no client's.
  std::string_view bytes{};
  bool cut = false;  // It was larger than the room for it.
  std::optional<WallTime> arrived{};
  std::uint32_t pid = 0;  // The sender in this process's PID namespace; 0 if it is in another one.
};
// The next datagram, or nothing. Does not block. `room` holds the bytes.
std::optional<KinetoDatagram> ReceiveKineto(const FileDescriptor& daemon,
                                            const KinetoSocketDir& directory, std::string& room);

// The process's ID in its own PID namespace, by /proc/<pid>/status; 0 if it is not known.
std::uint32_t OwnPidOf(std::uint32_t pid);
// When the process with this ID in our PID namespace began, in the kernel's ticks since boot; none
// if there is no such process.
std::optional<std::uint64_t> BeganOf(std::uint32_t pid);

}  // namespace strobe::source
