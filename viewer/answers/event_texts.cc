#include "viewer/answers/event_texts.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <span>

#include "collector/trace/xplane/wire.h"
#include "common/base/status_macros.h"
#include "common/text/safe_text.h"

namespace strobe::viewer {
namespace {

using wire::Reader;

constexpr std::string_view kFullName = "Full name";
constexpr std::size_t kMaxValue = 300;  // Bytes of a value that is shown as a reason.

// A number as the page writes it.
template <typename Number>
std::string_view Write(Number number, std::span<char> room) {
  char* end = std::to_chars(room.data(), room.data() + room.size(), number).ptr;
  return {room.data(), static_cast<std::size_t>(end - room.data())};
}

std::string ToText(const xplane::Stat& stat) {
  char room[40];
  if (const auto* integer = std::get_if<std::int64_t>(&stat.value))
    return std::string(Write(*integer, room));
  if (const auto* natural = std::get_if<std::uint64_t>(&stat.value))
    return std::string(Write(*natural, room));
  if (const auto* number = std::get_if<double>(&stat.value))
    return std::string(Write(*number, room));
  if (const auto* text = std::get_if<std::string_view>(&stat.value)) return std::string(*text);
  return "";
}

}  // namespace

EventTexts::EventTexts(const xplane::Plane& plane, const re2::RE2& pattern)
    : plane_(&plane), pattern_(&pattern), dense_(4 * plane.stat_names.size() + 64) {
  constexpr std::string_view kOfNumbers = "0123456789.+-aefin";  // Also "inf" and "nan".
  if (pattern.options().literal())
    numbers_ = pattern.pattern().find_first_not_of(kOfNumbers) == std::string::npos;
  for (const auto& [id, name] : plane.stat_names) {
    const auto flags = static_cast<std::uint8_t>((Matches(name) ? kMatches : 0) |
                                                 (name.starts_with('_') ? kHidden : 0));
    if (id >= 0 && static_cast<std::size_t>(id) < dense_.size())
      dense_[static_cast<std::size_t>(id)] = flags;
    else
      sparse_[id] = flags;
  }
}

absl::StatusOr<EventTexts> EventTexts::Read(const xplane::Plane& plane, const re2::RE2& pattern) {
  EventTexts texts(plane, pattern);
  for (const auto& [id, kind] : plane.event_names) {
    ASSIGN_OR_RETURN(const bool matches, texts.MatchesKind(kind, nullptr));
    if (matches) texts.kinds_.insert(id);
  }
  return texts;
}

bool EventTexts::Matches(std::string_view text) const {
  return re2::RE2::PartialMatch({text.data(), text.size()}, *pattern_);
}

bool EventTexts::Matches(const xplane::Stat& stat) const {
  const std::uint8_t flags = FlagsOf(stat.name_id);
  if ((flags & kHidden) != 0) return false;
  if ((flags & kMatches) != 0) return true;
  if (const auto* text = std::get_if<std::string_view>(&stat.value)) return Matches(*text);
  return numbers_ && Matches(ToText(stat));
}

absl::StatusOr<bool> EventTexts::MatchesKind(const xplane::EventName& kind, Reason* reason) const {
  if (kind.shown() != kind.name && Matches(kind.name)) {
    if (reason != nullptr) *reason = {std::string(kFullName), CutUtf8(kind.name, kMaxValue)};
    return true;
  }
  bool matches = false;
  RETURN_IF_ERROR(plane_->ForEachKindStat(kind, [&](const xplane::Stat& stat) {
    if (matches || !Matches(stat)) return;
    matches = true;
    if (reason != nullptr)
      *reason = {CutUtf8(plane_->NameOf(stat), kMaxValue), CutUtf8(ToText(stat), kMaxValue)};
  }));
  return matches;
}

// The fields are those of XStat: 1 name, 2 double, 3 uint64, 4 int64, 5 string, 6 bytes, 7 a
// string that is stored once.
absl::StatusOr<bool> EventTexts::MatchesStat(std::string_view bytes, std::uint64_t& cost) const {
  char room[40];
  std::uint8_t name = 0;
  bool value = false;
  Reader stat(bytes);
  const auto look = [&](std::string_view text) {
    cost += 4 + text.size() / 64;
    value = Matches(text);
  };
  while (stat.Next()) {
    const std::uint32_t field = stat.field();
    if (field == 1) name = FlagsOf(stat.signed_value());
    if (field == 7) value = (FlagsOf(stat.signed_value()) & kMatches) != 0;
    if (field == 5 || field == 6) look(stat.bytes());
    if (!numbers_) continue;
    if (field == 2) look(Write(std::bit_cast<double>(stat.value()), room));
    if (field == 3) look(Write(stat.value(), room));
    if (field == 4) look(Write(stat.signed_value(), room));
  }
  RETURN_IF_ERROR(stat.status());
  return (name & kHidden) == 0 && (value || (name & kMatches) != 0);
}

absl::StatusOr<bool> EventTexts::MatchesArguments(std::string_view event,
                                                  std::uint64_t& cost) const {
  Reader reader(event);
  ++cost;
  while (reader.Next()) {
    if (reader.field() != 4 || !reader.is_bytes()) continue;
    ++cost;
    ASSIGN_OR_RETURN(const bool matches, MatchesStat(reader.bytes(), cost));
    if (matches) return true;
  }
  RETURN_IF_ERROR(reader.status());
  return false;
}

absl::StatusOr<Reason> EventTexts::Explain(std::string_view bytes) const {
  Reason reason;
  xplane::Event event;
  RETURN_IF_ERROR(xplane::ParseEvent(bytes, event));
  if (kinds_.contains(event.name_id)) {
    RETURN_IF_ERROR(MatchesKind(plane_->event_names.at(event.name_id), &reason).status());
    return reason;
  }
  RETURN_IF_ERROR(ForEachStat(*plane_, event, [&](const xplane::Stat& stat) {
    if (!reason.name.empty() || !Matches(stat)) return;
    reason = {CutUtf8(plane_->NameOf(stat), kMaxValue), CutUtf8(ToText(stat), kMaxValue)};
  }));
  return reason;
}

}  // namespace strobe::viewer
