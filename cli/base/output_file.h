// An output file that appears under its name only when it is complete. It is compressed when its
// name ends with ".gz".
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace strobe::cli {

class OutputFile {
 public:
  virtual ~OutputFile() = default;
  // A link keeps leading to the file, which is replaced. Devices and pipes are written directly,
  // and so is what a link below /dev or /proc leads to, such as /dev/stdout: it is an open file, to
  // which is appended. The error says why the file cannot be written.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path);
  // Whether Create would write it directly, so that what was written cannot be taken back.
  static bool IsDirect(const std::string& path);

  virtual absl::Status Write(std::string_view piece) = 0;
  // Completes the file and sets `bytes` to its size. Without this call nothing is left behind.
  virtual absl::Status Finish(std::uint64_t& bytes) = 0;
};

}  // namespace strobe::cli
