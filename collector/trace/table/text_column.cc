#include "collector/trace/table/text_column.h"

namespace strobe::table {

std::uint32_t TextColumn::Code(std::string_view text) {
  const auto [place, is_new] =
      positions_.try_emplace(text, static_cast<std::uint32_t>(dictionary_.size()));
  if (is_new) dictionary_.push_back(text);
  return place->second;
}

void TextColumn::Clear() {
  positions_.clear();
  dictionary_.clear();
  codes_.clear();
}

}  // namespace strobe::table
