// Gives each different name a number, so that the index stores it once.
#pragma once
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace strobe::index {

// Keeps references to the texts that it is given; they must outlive it.
class Texts {
 public:
  std::uint32_t Id(std::string_view text) {
    const auto [found, added] = ids_.try_emplace(text, static_cast<std::uint32_t>(texts_.size()));
    if (added) texts_.push_back(text);
    return found->second;
  }
  const std::vector<std::string_view>& all() const { return texts_; }

 private:
  std::unordered_map<std::string_view, std::uint32_t> ids_;
  std::vector<std::string_view> texts_;
};

}  // namespace strobe::index
