// A long answer, which lies in a file while it is sent: a client may take an hour to read it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/fair/byte_shares.h"
#include "common/http/gzip.h"
#include "common/http/server.h"

namespace strobe::viewer {

// Where such files are, and how many bytes they may have together.
struct Scratch {
  std::string folder{};  // Empty = the one for temporary files.
  std::shared_ptr<fair::ByteShares> shares{};
};

class ScratchFile;

class SpooledAnswer {
 public:
  // Shorter answers stay in memory.
  static constexpr std::size_t kInMemory = std::size_t{4} << 20;

  // The file's bytes count for the asker, who waits as long as `is_gone` (may be null) is false.
  SpooledAnswer(const Scratch& scratch, std::string asker, http::IsGone is_gone);
  ~SpooledAnswer();
  SpooledAnswer(const SpooledAnswer&) = delete;
  SpooledAnswer& operator=(const SpooledAnswer&) = delete;

  // From now on, what is written is compressed. To be called before Write.
  void Compress() { gzip_.emplace(); }
  // Cancelled if nobody waits for the answer any more. Unavailable if there is no room for it
  // beside those that are being sent.
  absl::Status Write(std::string_view piece);
  std::uint64_t size() const { return size_; }  // As it will be sent.
  // Makes it the page's body. Nothing may be written any more. Errors are those of Write.
  absl::Status MoveInto(http::Page& page);

 private:
  absl::Status Keep(std::string_view piece);

  const Scratch& scratch_;
  const std::string asker_;
  const http::IsGone is_gone_;
  std::uint64_t size_ = 0;
  std::optional<http::GzipStream> gzip_;
  std::string text_;                   // While there is no file.
  std::unique_ptr<ScratchFile> file_;  // Without a name: it is gone when it is closed.
};

}  // namespace strobe::viewer
