#include "sidecar/stall/ras_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "common/base/file_descriptor.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::stall {
namespace {

constexpr std::size_t kMaxLine = 1024;  // RAS closes connections that send more without an end.
constexpr int kSliceMs = 100;           // How often to ask whether the answer is still wanted.

// The connection may be refused only after it was begun.
absl::Status ErrorOf(int number, const char* call, std::uint16_t port) {
  if (number == ECONNREFUSED)
    return absl::NotFoundError(StrCat("no RAS of NCCL listens on port ", port, " of this pod"));
  return absl::ErrnoToStatus(number, call);
}

class RasConnection {
 public:
  RasConnection(FileDescriptor socket, std::uint16_t port, const std::function<bool()>& is_wanted)
      : socket_(std::move(socket)), port_(port), is_wanted_(is_wanted) {}

  absl::Status Send(std::string_view text, MonoTime deadline) {
    while (!text.empty()) {
      const ssize_t sent = send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        text.remove_prefix(static_cast<std::size_t>(sent));
        continue;
      }
      if (errno != EAGAIN && errno != EINTR) return ErrorOf(errno, "send", port_);
      RETURN_IF_ERROR(Await(POLLOUT, deadline));
    }
    return absl::OkStatus();
  }

  // The next line without its end. Unavailable at the end of the connection.
  absl::StatusOr<std::string> ReadLine(MonoTime deadline) {
    for (;;) {
      if (const std::size_t end = read_.find('\n'); end != std::string::npos) {
        std::string line = read_.substr(0, end);
        read_.erase(0, end + 1);
        if (line.ends_with('\r')) line.pop_back();
        return line;
      }
      if (read_.size() > kMaxLine) return absl::DataLossError("RAS sent a line without an end");
      ASSIGN_OR_RETURN(const bool more, ReadMore(deadline));
      if (!more) return absl::UnavailableError("RAS closed the connection");
    }
  }

  absl::StatusOr<std::string> ReadAll(std::size_t max_bytes, MonoTime deadline) {
    for (;;) {
      if (read_.size() > max_bytes)
        return absl::ResourceExhaustedError(StrCat("RAS sent more than ", max_bytes, " bytes"));
      ASSIGN_OR_RETURN(const bool more, ReadMore(deadline));
      if (!more) return std::move(read_);
    }
  }

 private:
  // False at the end.
  absl::StatusOr<bool> ReadMore(MonoTime deadline) {
    std::array<char, 16 << 10> part{};
    for (;;) {
      const ssize_t got = recv(socket_.get(), part.data(), part.size(), 0);
      if (got == 0) return false;
      if (got > 0) {
        read_.append(part.data(), static_cast<std::size_t>(got));
        return true;
      }
      if (errno != EAGAIN && errno != EINTR) return ErrorOf(errno, "receive", port_);
      RETURN_IF_ERROR(Await(POLLIN, deadline));
    }
  }

  absl::Status Await(short events, MonoTime deadline) const {
    for (;;) {
      if (!is_wanted_()) return absl::CancelledError("nobody waits for the answer of RAS any more");
      const MonoTime now = SystemClock().MonoNow();
      if (now >= deadline) return absl::DeadlineExceededError("RAS does not answer");
      pollfd waited{.fd = socket_.get(), .events = events, .revents = 0};
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now);
      const int ready =
          poll(&waited, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 1, kSliceMs)));
      if (ready > 0) return absl::OkStatus();
    }
  }

  FileDescriptor socket_;
  const std::uint16_t port_;
  const std::function<bool()>& is_wanted_;
  std::string read_;
};

absl::StatusOr<FileDescriptor> ConnectToRas(std::uint16_t port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) return absl::ErrnoToStatus(errno, "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno == EINPROGRESS)
    return socket;
  return ErrorOf(errno, "connect", port);
}

// A connection whose process has answered the greeting.
absl::StatusOr<RasConnection> Greet(const RasOptions& options,
                                    const std::function<bool()>& is_wanted) {
  absl::Status failed = absl::DeadlineExceededError("RAS does not answer");
  for (int i = 0; i < options.tries; ++i) {
    ASSIGN_OR_RETURN(FileDescriptor socket, ConnectToRas(options.port));
    RasConnection connection(std::move(socket), options.port, is_wanted);
    const MonoTime deadline = SystemClock().MonoNow() + options.greeting;
    failed = connection.Send("CLIENT PROTOCOL 2\n", deadline);
    if (failed.ok()) {
      const absl::StatusOr<std::string> line = connection.ReadLine(deadline);
      if (line.ok() && line->starts_with("SERVER PROTOCOL")) return connection;
      if (line.ok())
        return absl::DataLossError("what listens on the port of RAS is something else");
      failed = line.status();
    }
    if (absl::IsCancelled(failed) || absl::IsNotFound(failed)) return failed;
  }
  return failed;
}

}  // namespace

absl::StatusOr<std::string> AskRas(const RasOptions& options,
                                   const std::function<bool()>& is_wanted) {
  ASSIGN_OR_RETURN(RasConnection connection, Greet(options, is_wanted));
  const MonoTime deadline = SystemClock().MonoNow() + options.answer;
  RETURN_IF_ERROR(connection.Send(StrCat("TIMEOUT ", options.seconds, "\n"), deadline));
  ASSIGN_OR_RETURN(const std::string limit, connection.ReadLine(deadline));
  RETURN_IF_ERROR(connection.Send("SET FORMAT json\n", deadline));
  // An error from an older version, which has only text.
  ASSIGN_OR_RETURN(const std::string format, connection.ReadLine(deadline));
  RETURN_IF_ERROR(connection.Send("VERBOSE STATUS\n", deadline));
  ASSIGN_OR_RETURN(std::string answer, connection.ReadAll(options.max_bytes, deadline));
  if (answer.empty())
    return absl::DataLossError(StrCat("RAS answered nothing (", limit, ", ", format, ")"));
  return answer;
}

}  // namespace strobe::stall
