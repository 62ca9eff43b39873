// Writes the sections of an index file.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "collector/trace/index/chunks.h"
#include "common/base/status_macros.h"

namespace strobe::index {

// Takes the index piece by piece. The first failure ends the work.
using Sink = std::function<absl::Status(std::string_view)>;

// Hands the sections of an index to a sink, one after the other.
class SectionWriter {
 public:
  explicit SectionWriter(const Sink& sink) : sink_(sink) {}

  absl::Status Bytes(std::string_view bytes) {
    at_ += bytes.size();
    return bytes.empty() ? absl::OkStatus() : sink_(bytes);
  }
  absl::Status All(const Chunks& chunks) {
    for (const std::string_view chunk : chunks.all()) RETURN_IF_ERROR(Bytes(chunk));
    return absl::OkStatus();
  }
  // Joins the texts to larger pieces. They lie in the trace, where the system calls of a sink may
  // not be able to read them (see FaultRange).
  absl::Status Texts(const std::vector<std::string_view>& texts) {
    constexpr std::size_t kPiece = 64 << 10;
    std::string piece;
    for (std::string_view text : texts) {
      for (; !text.empty(); text.remove_prefix(std::min(kPiece, text.size()))) {
        piece += text.substr(0, kPiece);
        if (piece.size() < kPiece) continue;
        RETURN_IF_ERROR(Bytes(piece));
        piece.clear();
      }
    }
    return Bytes(piece);
  }
  template <typename T>
  absl::Status Values(const std::vector<T>& values) {
    return Bytes({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  // Zeros up to the next multiple of 8 bytes, where a section may begin.
  absl::Status Pad() {
    static constexpr std::array<char, 8> kZeros{};
    return Bytes({kZeros.data(), (8 - at_ % 8) % 8});
  }

 private:
  const Sink& sink_;
  std::uint64_t at_ = 0;
};

}  // namespace strobe::index
