#include "common/base/file_descriptor.h"

#include <cerrno>

namespace strobe {

absl::StatusOr<std::size_t> ReadSome(const FileDescriptor& file, std::span<char> room) {
  for (;;) {
    const ssize_t bytes = read(file.get(), room.data(), room.size());
    if (bytes >= 0) return static_cast<std::size_t>(bytes);
    if (errno != EINTR) return absl::ErrnoToStatus(errno, "cannot read");
  }
}

}  // namespace strobe
