// Decompresses a file while it is read, if it is compressed by gzip.
#pragma once
#include <functional>
#include <memory>
#include <span>

#include "absl/status/statusor.h"

namespace strobe::kineto {

class Gunzip {
 public:
  using Source = std::function<absl::StatusOr<std::size_t>(std::span<char> room)>;

  explicit Gunzip(const Source& source);
  ~Gunzip();

  // Works as a Source. Returns what comes before damage; damage counts as the file's end.
  absl::StatusOr<std::size_t> Read(std::span<char> room);
  // Is the compressed file damaged, or does it end too early?
  bool damaged() const;

 private:
  class Stream;
  absl::StatusOr<std::size_t> Inflate(std::span<char> room);

  const Source& source_;
  const std::unique_ptr<Stream> stream_;
};

}  // namespace strobe::kineto
