#include "sidecar/capture/original.h"

#include "common/base/strings.h"

namespace strobe::session {
namespace {

constexpr std::string_view kComment = "strobe capture ";

}  // namespace

std::string OriginalName(std::string_view worker, const Original& original) {
  const std::string suffix =
      StrCat(original.container, original.container.empty() ? "" : ".", original.number);
  // A worker that is one of several in its pod has the local rank in its name.
  if (worker.ends_with(StrCat(".", suffix))) return StrCat(worker, kOriginalSuffix);
  return StrCat(worker, ".", suffix, kOriginalSuffix);
}

std::string OriginalComment(std::string_view capture_id) { return StrCat(kComment, capture_id); }

std::string CaptureOfHead(std::string_view head) {
  // The fixed part of a gzip header (RFC 1952): two magic bytes, the method, the flags, and six
  // bytes that do not matter here. A comment follows at once if it is the only flag.
  constexpr std::size_t kFixedBytes = 10, kFlags = 3;
  constexpr char kOnlyComment = 1 << 4;
  if (head.size() < kFixedBytes || !head.starts_with("\x1f\x8b") || head[kFlags] != kOnlyComment)
    return "";
  head.remove_prefix(kFixedBytes);
  const std::size_t end = head.find('\0');
  if (end == std::string_view::npos || !head.starts_with(kComment)) return "";
  return std::string(head.substr(kComment.size(), end - kComment.size()));
}

}  // namespace strobe::session
