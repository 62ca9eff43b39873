// Compresses a file into another one.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/base/file_descriptor.h"

namespace strobe::spool {

struct GzipLimits {
  std::uint64_t max_bytes = 0;  // The largest compressed file.
  // Asked regularly; the first error ends the work.
  std::function<absl::Status()> check = nullptr;
};

// Reads `from` from its beginning and creates the file `path`, with a comment in its header.
// Needs 0.5 MiB of memory. ResourceExhausted if the result were larger than allowed. After an error
// there is no file.
absl::Status GzipFile(const FileDescriptor& from, const std::string& path,
                      const std::string& comment, const GzipLimits& limits);

}  // namespace strobe::spool
