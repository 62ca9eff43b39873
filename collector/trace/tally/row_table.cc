#include "collector/trace/tally/row_table.h"

#include <algorithm>
#include <utility>

#include "common/base/saturated.h"
#include "common/base/strings.h"

namespace strobe::tally {
namespace {

constexpr std::string_view kFurtherNames = "(others)";

}  // namespace

std::uint32_t RowTable::Add(std::string_view name, std::string_view kind,
                            const std::string& group) {
  rows_.push_back({.name = name, .kind = kind, .group = group});
  return static_cast<std::uint32_t>(rows_.size() - 1);
}

std::uint32_t RowTable::Find(std::string_view name, std::string_view kind) {
  if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
  if (rows_.size() >= kMaxNames && name != kFurtherNames) return Find(kFurtherNames, kind);
  const std::uint32_t row = Add(name, kind, "");
  numbers_.emplace(name, row);
  return row;
}

std::uint32_t RowTable::FindOfGroup(std::string_view name, std::string_view kind,
                                    const std::string& group) {
  std::string key = StrCat(name, "\n", kind, "\n", group);
  if (const auto found = of_groups_.find(key); found != of_groups_.end()) return found->second;
  if (rows_.size() >= kMaxNames) return Find(kFurtherNames, kind);
  const std::uint32_t row = Add(name, kind, group);
  of_groups_.emplace(std::move(key), row);
  return row;
}

TallyRow* RowTable::Existing(std::string_view name) {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? nullptr : &rows_[found->second];
}

void RowTable::Count(std::uint32_t number, std::int64_t length_ps, std::int64_t self_ps) {
  TallyRow& row = rows_[number];
  ++row.count;
  row.total_ps = AddSaturated(row.total_ps, length_ps);
  row.self_ps = AddSaturated(row.self_ps, self_ps);
  row.max_ps = std::max(row.max_ps, length_ps);
}

std::int64_t RowTable::SelfTime() const {
  std::int64_t sum = 0;
  for (const TallyRow& row : rows_) sum = AddSaturated(sum, row.self_ps);
  return sum;
}

TallyTable RowTable::Finish() && {
  TallyTable table{.rows = std::move(rows_)};
  std::erase_if(table.rows, [](const TallyRow& row) { return row.count == 0; });
  std::ranges::sort(table.rows, [](const TallyRow& a, const TallyRow& b) {
    if (a.self_ps != b.self_ps) return a.self_ps > b.self_ps;
    return a.name != b.name ? a.name < b.name : a.group < b.group;
  });
  if (table.rows.size() > kMaxRows) {
    table.left_out = table.rows.size() - kMaxRows;
    table.rows.resize(kMaxRows);
  }
  return table;
}

}  // namespace strobe::tally
