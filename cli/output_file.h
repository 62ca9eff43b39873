// A file that appears when it is whole, compressed when its name ends with ".gz".
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace strobe {

class OutputFile {
 public:
  virtual ~OutputFile() = default;
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path);

  virtual absl::Status Write(std::string_view piece) = 0;
  // Puts it in its place. Without this nothing is left behind. `bytes`: its size.
  virtual absl::Status Finish(std::uint64_t& bytes) = 0;
};

}  // namespace strobe
