// Collects the texts of a column, each different one once.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/trace/table/parquet_file.h"

namespace strobe::table {

// The texts must outlive the column, or its next Clear().
class TextColumn {
 public:
  // The text's place in the dictionary.
  std::uint32_t Code(std::string_view text);
  void Add(std::string_view text) { codes_.push_back(Code(text)); }
  Column column() const { return {.texts = codes_, .dictionary = dictionary_}; }
  void Clear();

 private:
  std::unordered_map<std::string_view, std::uint32_t> positions_;
  std::vector<std::string_view> dictionary_;
  std::vector<std::uint32_t> codes_;
};

}  // namespace strobe::table
