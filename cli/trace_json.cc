#include "cli/trace_json.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <memory>

#include "collector/kineto/trace_file.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

// Closes the descriptor at the end.
class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int fd() const { return fd_; }

 private:
  const int fd_;
};

absl::StatusOr<convert::OpenTrace> Open(const std::string& name, const kineto::Source& source) {
  kineto::ReadReport report;
  absl::StatusOr<std::string> space = kineto::ReadTraceFile(source, report);
  if (!space.ok())
    return absl::Status(space.status().code(),
                        ToAbsl(StrCat(name, ": ", MessageOf(space.status()))));
  for (const std::string& warning : kineto::Warnings(report))
    std::cerr << name << ": " << warning << "\n";
  return convert::OpenTrace{WorkerOfTraceJson(name), "",
                            std::make_unique<const std::string>(*std::move(space))};
}

}  // namespace

std::string WorkerOfTraceJson(std::string_view file) {
  const std::size_t slash = file.rfind('/');
  if (slash != std::string_view::npos) file.remove_prefix(slash + 1);
  for (const std::string_view suffix : {".gz", ".json", ".trace", ".pt"}) {
    if (file.ends_with(suffix)) file.remove_suffix(suffix.size());
  }
  return std::string(file);
}

absl::StatusOr<convert::OpenTrace> OpenTraceJson(const std::string& path) {
  const Descriptor file(path);
  if (file.fd() < 0) return absl::ErrnoToStatus(errno, path);
  return Open(path, [&](std::span<char> room) -> absl::StatusOr<std::size_t> {
    for (;;) {
      const ssize_t bytes = read(file.fd(), room.data(), room.size());
      if (bytes >= 0) return static_cast<std::size_t>(bytes);
      if (errno != EINTR) return absl::ErrnoToStatus(errno, "cannot read");
    }
  });
}

absl::StatusOr<convert::OpenTrace> ReadTraceJson(const std::string& name, std::string_view bytes) {
  return Open(name, [&](std::span<char> room) -> absl::StatusOr<std::size_t> {
    const std::size_t size = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), size);
    bytes.remove_prefix(size);
    return size;
  });
}

}  // namespace strobe
