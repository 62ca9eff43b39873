#include "operator/schedule/cron.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "common/base/strings.h"
#include "tests/fakes/unit_dir.h"

namespace strobe::schedule {
namespace {

using testing::HasSubstr;

WallTime At(const std::string& text) {
  WallTime time{};
  EXPECT_TRUE(ParseRfc3339(text, time)) << text;
  return time;
}

std::string NextOf(const std::string& cron, const std::string& after, const std::string& zone) {
  const auto parsed = CronExpression::Parse(cron);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  const auto found = FindTimeZone(zone);
  EXPECT_TRUE(found.ok()) << found.status();
  const auto next = parsed->Next(At(after), *found);
  return next ? FormatRfc3339(*next) : "never";
}

TEST(Cron, TimesThatAChangeOfTheClockSkipsOrRepeats) {
  // Berlin skips 02:00-03:00 on 2024-03-31 and repeats it on 2024-10-27.
  const std::string zone = "Europe/Berlin";
  EXPECT_EQ(NextOf("30 2 * * *", "2024-03-30T12:00:00Z", zone), "2024-04-01T00:30:00Z");
  EXPECT_EQ(NextOf("30 2 * * *", "2024-10-26T12:00:00Z", zone), "2024-10-27T00:30:00Z");
  EXPECT_EQ(NextOf("30 2 * * *", "2024-10-27T00:30:00Z", zone), "2024-10-27T01:30:00Z");
  EXPECT_EQ(NextOf("30 2 * * *", "2024-10-27T01:30:00Z", zone), "2024-10-28T01:30:00Z");
  // Cairo's day of 2024-04-26 begins at 01:00.
  EXPECT_EQ(NextOf("0 0 * * *", "2024-04-25T20:00:00Z", "Africa/Cairo"), "2024-04-26T21:00:00Z");
  EXPECT_EQ(NextOf("0 5 26 4 *", "2024-04-25T20:00:00Z", "Africa/Cairo"), "2024-04-26T02:00:00Z");
  EXPECT_EQ(NextOf("0 9 13 * FRI", "2024-04-25T20:00:00Z", "Africa/Cairo"), "2024-04-26T06:00:00Z");
  EXPECT_EQ(NextOf("0 4 1-7 * */2", "2024-04-25T20:00:00Z", "Africa/Cairo"),
            "2024-04-27T01:00:00Z");
  // Lord Howe's clocks go back by half an hour at 02:00 on 2024-04-07: 01:45 occurs twice.
  EXPECT_EQ(NextOf("45 1 * * *", "2024-04-06T12:00:00Z", "Australia/Lord_Howe"),
            "2024-04-06T14:45:00Z");
  EXPECT_EQ(NextOf("45 1 * * *", "2024-04-06T14:45:00Z", "Australia/Lord_Howe"),
            "2024-04-06T15:15:00Z");
}

TEST(Cron, RareDaysAndNone) {
  EXPECT_EQ(NextOf("0 0 29 2 *", "2096-03-01T00:00:00Z", "UTC"), "2104-02-29T00:00:00Z");
  EXPECT_EQ(NextOf("0 0 31 2 *", "2024-01-01T00:00:00Z", "UTC"), "never");
  // Either of the two fields for days is enough, unless one of them is "*".
  EXPECT_EQ(NextOf("0 0 13 * 5", "2024-09-10T00:00:00Z", "UTC"), "2024-09-13T00:00:00Z");
  EXPECT_EQ(NextOf("0 0 13 * 5", "2024-09-13T00:00:00Z", "UTC"), "2024-09-20T00:00:00Z");
  EXPECT_EQ(NextOf("0 0 13 * *", "2024-09-13T00:00:00Z", "UTC"), "2024-10-13T00:00:00Z");
}

TEST(Cron, WhatIsWrongIsNamed) {
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"61 * * * *", "the minute \"61\" is not within 0 to 59"},
           {"0 0 * * 7", "the day of the week \"7\" is not within 0 to 6"},
           {"* * * *", "has 4"},
           {"", "has 0"},
           {"@every 5m", "use interval"},
           {"@reboot", "is not one of @hourly"},
           {"@hourly 5", "is not one of @hourly"},
           {"CRON_TZ=UTC * * * * *", "timeZone"},
           {std::string(300, '*'), "256"}}) {
    EXPECT_THAT(std::string(CronExpression::Parse(text).status().message()), HasSubstr(words))
        << text;
  }
}

TEST(Cron, TimeZonesAreNamesAndNoPaths) {
  for (const char* name : {"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"})
    EXPECT_TRUE(FindTimeZone(name).ok()) << name;
  for (const char* name : {"", "Mars/Base", "localtime", "/etc/localtime", "../../etc/localtime",
                           "file:/etc/localtime", "libc:UTC", ":UTC", "Europe/../UTC"}) {
    EXPECT_FALSE(FindTimeZone(name).ok()) << name;
  }
}

// Where a day begins without midnight, as 2024-04-26 does in Cairo, the library takes another day:
// a Friday for "*/2", and not the Friday that is asked for.
constexpr std::array<std::string_view, 3> kMistakes = {
    "Africa/Cairo 0 9 13 * FRI: 2024-05-03T06:00",
    "Africa/Cairo 45 23 28-31 * 5,6: 2024-04-27T20:45",
    "Africa/Cairo 0 4 1-7 * */2: 2024-04-26T01:00"};

// tests/golden/cron/main.go, run with robfig/cron v3, wrote the answers.
TEST(Cron, AgreesWithTheLibraryOfCronJob) {
  std::ifstream answers(UnitDir() + "/../golden/cron/answers.txt");
  int parsed = 0, asked = 0;
  std::vector<std::string> starts;
  for (std::string line; std::getline(answers, line);) {
    const std::vector<std::string> words = Split(line, '\t');
    if (words[0] == "parse") {
      EXPECT_EQ(CronExpression::Parse(words[1]).ok(), words[2] == "good") << words[1];
      ++parsed;
      continue;
    }
    if (words[0] == "starts") {
      starts = Split(words[1], ' ');
      continue;
    }
    const std::vector<std::string> times = Split(words[2], ' ');
    ASSERT_EQ(times.size(), 2 * starts.size());
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (std::find(kMistakes.begin(), kMistakes.end(),
                    StrCat(words[0], " ", words[1], ": ", times[i])) != kMistakes.end())
        continue;
      const std::string after = i % 2 == 0 ? starts[i / 2] : times[i - 1] + ":00Z";
      EXPECT_EQ(NextOf(words[1], after, words[0]), times[i] + ":00Z")
          << words[0] << " " << words[1];
      ++asked;
    }
  }
  EXPECT_GT(parsed, 25);
  EXPECT_GT(asked, 10'000);
}

}  // namespace
}  // namespace strobe::schedule
