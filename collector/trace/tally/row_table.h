// A table's rows while they are counted, by the number of their name in the index.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/trace/tally/tally.h"

namespace strobe::tally {

class RowTable {
 public:
  // Further names are counted together, as "(others)".
  static constexpr std::size_t kMaxNames = std::size_t{1} << 16;

  // The row of a name. `kind` counts when it is the first of its name.
  std::uint32_t Find(std::string_view name, std::string_view kind);
  // The row of a collective's name, kind and group.
  std::uint32_t FindOfGroup(std::string_view name, std::string_view kind, const std::string& group);

  // The row of a name; null if there is none.
  TallyRow* Existing(std::string_view name);
  bool empty() const { return rows_.empty(); }
  TallyRow& operator[](std::uint32_t row) { return rows_[row]; }
  void Count(std::uint32_t row, std::int64_t length_ps, std::int64_t self_ps);
  // The self times of all rows.
  std::int64_t SelfTime() const;
  TallyTable Finish() &&;

 private:
  std::uint32_t Add(std::string_view name, std::string_view kind, const std::string& group);

  std::vector<TallyRow> rows_{};
  std::unordered_map<std::string_view, std::uint32_t> numbers_{};
  std::unordered_map<std::string, std::uint32_t> of_groups_{};  // By name, kind and group.
};

}  // namespace strobe::tally
