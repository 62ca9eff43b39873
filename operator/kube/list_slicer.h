// Cuts a list that the API server sends piece by piece, {"metadata": {...}, "items": [{...}, ...]},
// into the texts of its items, so that only one of them is in memory. Looks only at brackets and
// quotes; who parses the texts checks the rest.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/base/strings.h"

namespace strobe::kube {

class ListSlicer {
 public:
  // `most`: the largest item. etcd's limit is 1.5 MiB by default; an administrator may raise it.
  explicit ListSlicer(std::size_t most = 8u << 20) : most_(most) {}

  // Calls `item` with the text of every item that `piece` completes. After an error the list is of
  // no use.
  template <typename OnItem>
  absl::Status Feed(std::string_view piece, const OnItem& item) {
    std::size_t from = 0;  // Where what belongs together begins in `piece`.
    for (std::size_t i = 0; i < piece.size(); ++i) {
      const char c = piece[i];
      if (in_string_) {
        if (escaped_)
          escaped_ = false;
        else if (c == '\\')
          escaped_ = true;
        else if (c == '"')
          in_string_ = false;
        continue;
      }
      if (c == '"') {
        in_string_ = true;
        if (depth_ == 1) name_at_ = rest_.size() + (i - from) + 1;
      } else if (c == '{' || c == '[') {
        if (in_items_ && depth_ == kItems) from = i;
        ++depth_;
        if (c == '[' && depth_ == kItems && !in_items_) {
          if (!Keep(rest_, piece.substr(from, i + 1 - from), kMaxRest)) return TooLarge();
          from = i + 1;
          in_items_ = IsNamedItems();
        }
      } else if (c == '}' || c == ']') {
        --depth_;
        if (in_items_ && depth_ == kItems) {
          if (!Keep(item_, piece.substr(from, i + 1 - from), most_)) return TooLarge();
          from = i + 1;
          item(std::string_view(item_));
          item_.clear();
        } else if (in_items_ && depth_ < kItems) {
          in_items_ = false;
          from = i;
        }
      } else if (in_items_ && depth_ == kItems) {
        from = i + 1;  // A comma, or white space.
      }
    }
    const bool in_item = in_items_ && depth_ > kItems;
    return Keep(in_item ? item_ : rest_, piece.substr(from), in_item ? most_ : kMaxRest)
               ? absl::OkStatus()
               : TooLarge();
  }

  // The list without its items, once all of it was fed.
  const std::string& rest() const { return rest_; }

 private:
  static constexpr int kItems = 2;  // Inside of the list's object and of the list "items".
  static constexpr std::size_t kMaxRest = 1u << 20;

  static bool Keep(std::string& kept, std::string_view more, std::size_t most) {
    if (kept.size() + more.size() > most) return false;
    kept.append(more);
    return true;
  }
  static absl::Status TooLarge() {
    return absl::DataLossError("the answer has an object that is too large");
  }
  // Whether the last text at the first level was "items", which names the list that begins.
  bool IsNamedItems() const {
    constexpr std::string_view kName = "items\"";
    return name_at_ <= rest_.size() && std::string_view(rest_).substr(name_at_).starts_with(kName);
  }

  const std::size_t most_;
  int depth_ = 0;
  bool in_string_ = false, escaped_ = false, in_items_ = false;
  std::size_t name_at_ = 0;  // Where the last text that began at the first level begins in rest_.
  std::string item_, rest_;
};

}  // namespace strobe::kube
