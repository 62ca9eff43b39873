#include "collector/trace/kineto/stats.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace strobe::kineto {
namespace {

// Longer texts hardly repeat.
constexpr std::size_t kMaxShared = 16 << 10;

template <typename Number>
std::optional<Number> Parse(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace

std::optional<std::int64_t> IntegerOf(const JsonValue& value) {
  if (value.kind != JsonValue::Kind::kScalar && value.kind != JsonValue::Kind::kText)
    return std::nullopt;
  std::string_view text = value.text;
  // Programs without integers write "3.0".
  const std::size_t point = text.find('.');
  if (point != 0 && point < text.size() - 1 &&
      text.find_first_not_of('0', point + 1) == std::string_view::npos)
    text = text.substr(0, point);
  return Parse<std::int64_t>(text);
}

std::optional<std::vector<std::uint64_t>> NaturalsIn(std::string_view list, std::size_t most) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto trim = [&](std::string_view text) {
    const std::size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
    return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
  };
  std::vector<std::uint64_t> numbers;
  list = trim(list);
  if (list.size() < 2 || list.front() != '[' || list.back() != ']') return std::nullopt;
  list = trim(list.substr(1, list.size() - 2));
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const auto number = IntegerOf({JsonValue::Kind::kScalar, trim(list.substr(0, comma))});
    if (!number || *number < 0 || numbers.size() == most) return std::nullopt;
    numbers.push_back(static_cast<std::uint64_t>(*number));
    if (comma == list.size()) return numbers;
    list.remove_prefix(comma + 1);
  }
  // An empty list, or a comma behind the last number.
  return numbers;
}

void AddStat(const Member& member, PlaneNames& names, EventBytes& event) {
  const std::int64_t stat = names.StatId(member.key);
  const std::string_view text = member.value.text;
  if (member.value.kind == JsonValue::Kind::kScalar && !text.empty()) {
    if (const auto integer = Parse<std::int64_t>(text)) return event.AddInt(stat, *integer);
    if (const auto natural = Parse<std::uint64_t>(text)) return event.AddUint(stat, *natural);
    // Words such as null stay words. from_chars also reads "nan" and "inf", which some writers
    // write although JSON does not have them. An integer of more than 64 bits stays text, so that
    // no digit is lost.
    if (text.find_first_of(".eE") != std::string_view::npos) {
      if (const auto number = Parse<double>(text); number && std::isfinite(*number))
        return event.AddDouble(stat, *number);
    }
  }
  AddTextStat(stat, text, names, event);
}

void AddOtherMembers(const TraceEvent& from, PlaneNames& names, EventBytes& event) {
  for (const Member& member : from.other_members) {
    if (member.key != "bp" && member.key != "flow_in" && member.key != "flow_out")
      AddStat(member, names, event);
  }
  if (from.id.present()) AddStat({"id", from.id}, names, event);
}

void AddTextStat(std::int64_t stat, std::string_view text, PlaneNames& names, EventBytes& event) {
  const std::int64_t shared = text.size() > kMaxShared ? 0 : names.RefId(text);
  if (shared != 0)
    event.AddRef(stat, shared);
  else
    event.AddText(stat, text);
}

void AddTextStat(std::string_view name, std::string_view text, PlaneNames& names,
                 EventBytes& event) {
  AddTextStat(names.StatId(name), text, names, event);
}

}  // namespace strobe::kineto
