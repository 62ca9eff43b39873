#include "sidecar/source/kineto/kineto_socket.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <fstream>

#include "agent/wire/ring_file.h"
#include "common/base/strings.h"

namespace strobe::source {
namespace {

constexpr std::string_view kDaemonName = "dynolog", kClientPrefix = "dynoconfigclient";
constexpr std::size_t kMaxClientName = 96;

struct UnixAddress {
  sockaddr_un address{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  const char* c_str() const { return address.sun_path; }
};

// Kineto's abstract names end with a NUL too; a name without it is another name.
UnixAddress AddressOf(const KinetoSocketDir& directory, std::string_view name) {
  const std::string path =
      directory.empty() ? StrCat(std::string_view("\0", 1), name) : StrCat(directory, "/", name);
  UnixAddress result;
  result.address.sun_family = AF_UNIX;
  const std::size_t size = std::min(path.size(), sizeof result.address.sun_path - 1);
  std::memcpy(result.address.sun_path, path.data(), size);
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size + 1);
  return result;
}

FileDescriptor NewSocket() {
  return FileDescriptor(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool Bind(const FileDescriptor& socket, const UnixAddress& address) {
  return bind(socket.get(), address.get(), address.size) == 0;
}

// Whether anybody has bound this name. Connecting sends nothing.
bool IsBound(const UnixAddress& address) {
  const FileDescriptor socket = NewSocket();
  return connect(socket.get(), address.get(), address.size) == 0;
}

// Gives the socket a name of its own.
bool BindAnywhere(const FileDescriptor& socket, const KinetoSocketDir& directory) {
  if (directory.empty()) {
    const sa_family_t family = AF_UNIX;  // The kernel chooses an abstract name.
    return bind(socket.get(), reinterpret_cast<const sockaddr*>(&family), sizeof family) == 0;
  }
  static std::atomic<std::uint32_t> number{0};
  const UnixAddress address =
      AddressOf(directory, StrCat(kDaemonName, ".", getpid(), ".", number.fetch_add(1)));
  const bool bound = Bind(socket, address);
  // The receiver still sees the name, and nothing stays behind.
  if (bound) (void)unlink(address.c_str());
  return bound;
}

bool IsClientName(std::string_view name) {
  return name.starts_with(kClientPrefix) && name.size() <= kMaxClientName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '_';
         });
}

// Returns the client's name if the address is of the daemon's own kind, else "". With both kinds,
// two sockets could have the same name.
std::string ClientOf(const KinetoSocketDir& directory, const sockaddr_un& address, socklen_t size) {
  const std::size_t bytes = size - std::min<std::size_t>(size, offsetof(sockaddr_un, sun_path));
  std::string_view name(address.sun_path, bytes);
  const std::string before = directory.empty() ? std::string(1, '\0') : directory + "/";
  // Both kinds end with a NUL.
  if (!name.starts_with(before) || name.size() <= before.size() || name.back() != '\0') return "";
  name.remove_suffix(1);
  name.remove_prefix(before.size());
  return IsClientName(name) ? std::string(name) : "";
}

void Close(const cmsghdr& rights) {
  const std::size_t bytes = rights.cmsg_len - CMSG_LEN(0);
  const unsigned char* data = CMSG_DATA(&rights);
  for (std::size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
    int fd = -1;
    std::memcpy(&fd, data + at, sizeof fd);
    const FileDescriptor closed(fd);
  }
}

void ReadControl(msghdr& message, KinetoDatagram& datagram) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET) continue;
    if (part->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
      datagram.pid = static_cast<std::uint32_t>(sender.pid);
    } else if (part->cmsg_type == SCM_TIMESTAMPNS) {
      timespec time{};
      std::memcpy(&time, CMSG_DATA(part), sizeof time);
      datagram.arrived =
          WallTime{std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec)};
    } else if (part->cmsg_type == SCM_RIGHTS) {
      // The protocol has no descriptors. Those that somebody sends anyway would fill our table.
      Close(*part);
    }
  }
}

}  // namespace

absl::StatusOr<FileDescriptor> BindKinetoDaemon(const KinetoSocketDir& directory) {
  const UnixAddress address = AddressOf(directory, kDaemonName);
  FileDescriptor socket = NewSocket();
  const int on = 1;
  if (socket.get() < 0 || setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
      setsockopt(socket.get(), SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) != 0)
    return absl::UnavailableError(StrCat("a Unix socket: ", std::strerror(errno)));
  // Removes a name that a killed sidecar left behind.
  if (!directory.empty() && !IsBound(address)) (void)unlink(address.c_str());
  if (!Bind(socket, address)) {
    if (errno == EADDRINUSE)
      return absl::AlreadyExistsError("another daemon, such as dynolog, has Kineto's socket");
    return absl::UnavailableError(StrCat("Kineto's socket: ", std::strerror(errno)));
  }
  if (!directory.empty()) (void)chmod(address.c_str(), 0666);
  return socket;
}

void RemoveKinetoDaemon(const KinetoSocketDir& directory) {
  if (!directory.empty()) (void)unlink(AddressOf(directory, kDaemonName).c_str());
}

FileDescriptor ConnectKinetoClient(const KinetoSocketDir& directory, const std::string& client) {
  FileDescriptor socket = NewSocket();
  const UnixAddress address = AddressOf(directory, client);
  if (socket.get() < 0 || !BindAnywhere(socket, directory) ||
      connect(socket.get(), address.get(), address.size) != 0)
    return FileDescriptor();
  return socket;
}

bool IsKinetoClientThere(const KinetoSocketDir& directory, const std::string& client) {
  return IsBound(AddressOf(directory, client));
}

bool IsKinetoUnread(const FileDescriptor& socket) {
  int bytes = 0;
  return socket.get() >= 0 && ioctl(socket.get(), SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

std::optional<KinetoDatagram> ReceiveKineto(const FileDescriptor& daemon,
                                            const KinetoSocketDir& directory, std::string& room) {
  // Room for as many descriptors as one datagram can carry.
  alignas(cmsghdr) char control[2048];
  sockaddr_un sender{};
  iovec piece{room.data(), room.size()};
  msghdr message{};
  message.msg_name = &sender;
  message.msg_namelen = sizeof sender;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t size = recvmsg(daemon.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0) return std::nullopt;
  KinetoDatagram datagram{.client = ClientOf(directory, sender, message.msg_namelen),
                          .bytes = std::string_view(room).substr(0, static_cast<std::size_t>(size)),
                          .cut = (message.msg_flags & MSG_TRUNC) != 0};
  ReadControl(message, datagram);
  return datagram;
}

std::uint32_t OwnPidOf(std::uint32_t pid) {
  std::ifstream status(StrCat("/proc/", pid, "/status"));
  constexpr std::string_view kKey = "NSpid:";
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kKey)) continue;
    // From the outermost PID namespace to the innermost one.
    const std::string_view last = std::string_view(line).substr(line.find_last_of(" \t:") + 1);
    std::uint32_t own = 0;
    std::from_chars(last.data(), last.data() + last.size(), own);
    return own;
  }
  return 0;
}

std::optional<std::uint64_t> BeganOf(std::uint32_t pid) {
  std::ifstream file(StrCat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  const std::uint64_t began = wire::BeganIn(line);
  return began == 0 ? std::nullopt : std::optional(began);
}

}  // namespace strobe::source
