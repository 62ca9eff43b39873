// Splits a watch's chunks into lines. Each line is one JSON object and may span several chunks.
#pragma once
#include <string>
#include <string_view>

namespace strobe::kube {

// Feed calls `line` for every complete, non-empty line. It returns false, and stops, if a line
// exceeds the limit; the stream must then be dropped.
class LineSplitter {
 public:
  explicit LineSplitter(std::size_t longest = 8u << 20) : longest_(longest) {}

  template <typename OnLine>
  bool Feed(std::string_view chunk, const OnLine& line) {
    while (!chunk.empty()) {
      const std::size_t end = chunk.find('\n');
      if (end == std::string_view::npos) {
        if (pending_.size() + chunk.size() > longest_) return false;
        pending_.append(chunk);
        return true;
      }
      if (pending_.size() + end > longest_) return false;
      if (pending_.empty()) {
        if (end > 0) line(chunk.substr(0, end));
      } else {
        pending_.append(chunk.substr(0, end));
        line(std::string_view(pending_));
        pending_.clear();
      }
      chunk.remove_prefix(end + 1);
    }
    return true;
  }

 private:
  const std::size_t longest_;
  std::string pending_;
};

}  // namespace strobe::kube
