#include "operator/schedule/cron.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <string>
#include <vector>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::schedule {
namespace {

constexpr int kMaxYears = 9;  // 29 February occurs every four years, and around 2100 after eight.
constexpr std::size_t kMaxCronBytes = 256;

constexpr std::array<std::string_view, 12> kMonthNames = {"jan", "feb", "mar", "apr", "may", "jun",
                                                          "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> kDayNames = {"sun", "mon", "tue", "wed",
                                                       "thu", "fri", "sat"};

struct CronField {
  std::string_view name;
  int min, max;
  std::span<const std::string_view> names{};  // The first one stands for `min`.
};

constexpr std::array<CronField, 5> kFields = {{{"minute", 0, 59, {}},
                                               {"hour", 0, 23, {}},
                                               {"day of the month", 1, 31, {}},
                                               {"month", 1, 12, kMonthNames},
                                               {"day of the week", 0, 6, kDayNames}}};

struct ParsedField {
  std::uint64_t bits = 0;
  bool any = false;  // "*" or "?" is among its parts.
};

std::string CronLower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

absl::Status WrongField(const CronField& field, std::string_view part, std::string_view why) {
  return absl::InvalidArgumentError(StrCat("the ", field.name, " \"", part, "\" ", why));
}

std::optional<int> ParseCronNumber(std::string_view text) {
  if (text.empty() || text.size() > 4) return std::nullopt;
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

std::optional<int> ParseCronValue(const CronField& field, std::string_view text) {
  const auto named = std::find(field.names.begin(), field.names.end(), CronLower(text));
  if (named != field.names.end()) return field.min + static_cast<int>(named - field.names.begin());
  return ParseCronNumber(text);
}

// One part of a list: "*", "5", "1-5", and each with a step, such as "*/15".
absl::StatusOr<ParsedField> ParseCronPart(const CronField& field, std::string_view part) {
  const std::vector<std::string> stepped = Split(part, '/');
  const std::vector<std::string> bounds = Split(stepped[0], '-');
  if (stepped.size() > 2 || bounds.size() > 2)
    return WrongField(field, part, "has too many slashes or hyphens");
  const bool any = stepped[0] == "*" || stepped[0] == "?";
  int low = field.min, high = field.max, step = 1;
  if (!any) {
    const std::optional<int> first = ParseCronValue(field, bounds[0]);
    const std::optional<int> last = ParseCronValue(field, bounds.back());
    if (!first || !last) return WrongField(field, part, "is not a number, a range or a name");
    low = *first;
    // "5/15" means from 5 to the end.
    high = bounds.size() == 1 && stepped.size() == 2 ? field.max : *last;
  }
  if (stepped.size() == 2) {
    const std::optional<int> given = ParseCronNumber(stepped[1]);
    if (!given || *given == 0) return WrongField(field, part, "has a step that is not positive");
    step = *given;
  }
  if (low < field.min || high > field.max || low > high)
    return WrongField(field, part, StrCat("is not within ", field.min, " to ", field.max));
  ParsedField parsed{.any = any && step == 1};
  for (int value = low; value <= high; value += step) parsed.bits |= std::uint64_t{1} << value;
  return parsed;
}

absl::StatusOr<ParsedField> ParseCronField(const CronField& field, std::string_view text) {
  ParsedField parsed;
  for (const std::string& part : Split(text, ',')) {
    ASSIGN_OR_RETURN(const ParsedField one, ParseCronPart(field, part));
    parsed.bits |= one.bits;
    parsed.any = parsed.any || one.any;
  }
  return parsed;
}

std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (c != ' ' && c != '\t') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

// Empty for an unknown macro.
std::string_view MacroOf(std::string_view text) {
  if (text == "@yearly" || text == "@annually") return "0 0 1 1 *";
  if (text == "@monthly") return "0 0 1 * *";
  if (text == "@weekly") return "0 0 * * 0";
  if (text == "@daily" || text == "@midnight") return "0 0 * * *";
  if (text == "@hourly") return "0 * * * *";
  return "";
}

bool Has(std::uint64_t bits, int value) { return (bits >> value & 1) != 0; }

// The first instant after `now` at which clocks show `civil`. `now` is before it.
absl::Time InstantOf(absl::CivilSecond civil, absl::Time now, const absl::TimeZone& zone) {
  const absl::TimeZone::TimeInfo info = zone.At(civil);
  // Skipped: the first instant after the gap. Repeated: there are two.
  const absl::Time first = info.kind == absl::TimeZone::TimeInfo::SKIPPED ? info.trans : info.pre;
  if (first > now) return first;
  if (info.post > now) return info.post;
  return now + absl::Minutes(1);
}

absl::Time FloorMinute(absl::Time time) {
  return absl::FromUnixSeconds(absl::ToUnixSeconds(time) / 60 * 60);
}

}  // namespace

absl::StatusOr<CronExpression> CronExpression::Parse(std::string_view text) {
  if (text.size() > kMaxCronBytes)
    return absl::InvalidArgumentError("a cron expression has at most 256 characters");
  if (Contains(text, "TZ="))
    return absl::InvalidArgumentError("a time zone is given by timeZone, not by TZ= or CRON_TZ=");
  std::vector<std::string> words = WordsOf(text);
  if (!words.empty() && words[0].starts_with('@')) {
    const std::string_view macro = words.size() == 1 ? MacroOf(words[0]) : "";
    if (macro.empty()) {
      return absl::InvalidArgumentError(StrCat(
          "\"", words[0],
          "\" is not one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually",
          words[0].starts_with("@every") ? "; use interval" : ""));
    }
    words = WordsOf(macro);
  }
  if (words.size() != kFields.size()) {
    return absl::InvalidArgumentError(
        StrCat("a cron expression has five fields (minute, hour, day of the month, month, day of "
               "the week), and \"",
               text, "\" has ", words.size()));
  }
  std::array<ParsedField, kFields.size()> parsed;
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    ASSIGN_OR_RETURN(parsed[i], ParseCronField(kFields[i], words[i]));
  }
  CronExpression cron;
  cron.minutes_ = parsed[0].bits;
  cron.hours_ = parsed[1].bits;
  cron.days_ = parsed[2].bits;
  cron.months_ = parsed[3].bits;
  cron.weekdays_ = parsed[4].bits;
  cron.both_days_ = parsed[2].any || parsed[4].any;
  return cron;
}

bool CronExpression::MatchesDay(absl::CivilDay day) const {
  // abseil's weekdays begin with Monday as 0, cron's with Sunday.
  const int weekday = (static_cast<int>(absl::GetWeekday(day)) + 1) % 7;
  const bool by_date = Has(days_, day.day()), by_weekday = Has(weekdays_, weekday);
  return both_days_ ? by_date && by_weekday : by_date || by_weekday;
}

std::optional<WallTime> CronExpression::Next(WallTime after, const absl::TimeZone& zone) const {
  absl::Time time = FloorMinute(absl::FromUnixNanos(ToUnixNanos(after))) + absl::Minutes(1);
  const auto last_year = zone.At(time).cs.year() + kMaxYears;
  while (true) {
    const absl::CivilSecond local = zone.At(time).cs;
    if (local.year() > last_year) return std::nullopt;
    if (!Has(months_, local.month())) {
      time = InstantOf(absl::CivilSecond(absl::CivilMonth(local) + 1), time, zone);
    } else if (!MatchesDay(absl::CivilDay(local))) {
      time = InstantOf(absl::CivilSecond(absl::CivilDay(local) + 1), time, zone);
    } else if (!Has(hours_, local.hour())) {
      time = InstantOf(absl::CivilSecond(absl::CivilHour(local) + 1), time, zone);
    } else if (!Has(minutes_, local.minute())) {
      time += absl::Minutes(1);
    } else {
      return FromUnixNanos(absl::ToUnixNanos(time));
    }
  }
}

absl::StatusOr<absl::TimeZone> FindTimeZone(std::string_view name) {
  constexpr std::size_t kMaxZoneBytes = 64;
  // abseil opens a file of this name, below the database or wherever an absolute path leads.
  bool good = !name.empty() && name.size() <= kMaxZoneBytes && name != "localtime" &&
              std::isalpha(static_cast<unsigned char>(name[0])) != 0;
  for (const char c : name) {
    good = good && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '_' ||
                    c == '-' || c == '+');
  }
  absl::TimeZone zone;
  if (!good || !absl::LoadTimeZone(ToAbsl(name), &zone)) {
    return absl::InvalidArgumentError(StrCat("\"", name,
                                             "\" is not a time zone in the operator's IANA "
                                             "database; use a name such as Europe/Berlin or UTC"));
  }
  return zone;
}

}  // namespace strobe::schedule
