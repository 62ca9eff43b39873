#include "collector/store/logdir.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace strobe::storage {
namespace {

using namespace std::chrono_literals;

TEST(Logdir, NormalisesPathsAndUrls) {
  EXPECT_EQ(Logdir::Parse("/data//logs/./x/")->url(), "file:///data/logs/x");
  EXPECT_EQ(Logdir::Parse("file:///data/logs")->path(), "/data/logs");
  EXPECT_EQ(Logdir::Parse("gs://bucket/a/b/")->url(), "gs://bucket/a/b");
  EXPECT_EQ(Logdir::Parse("s3://bucket")->url(), "s3://bucket");
  EXPECT_EQ(Logdir::Parse("az://container/x")->bucket(), "container");
}

TEST(Logdir, RefusesWhatIsUnclearOrClimbs) {
  for (const char* text :
       {"", "logs", "http://x/y", "file://host/x", "gs://", "gs:///x", "/a/../b", "s3://b/../c",
        "gs://user@bucket/x", "gs://b/x?y", "gs://b/x?y=%4", "gs://b/x?y=1&y=2", "gs://b/x?=1",
        "file:///x?y=1", "s3://b#c", "/a\nb", "gs://bu cket", "/a\xff"}) {
    EXPECT_FALSE(Logdir::Parse(text).ok()) << text;
  }
}

TEST(Logdir, CarriesOptionsThatAreNotPartOfItsName) {
  const auto logdir =
      Logdir::Parse("s3://bucket/logs/?endpoint=https%3A%2F%2Fs3.example:9000&region=x");
  ASSERT_TRUE(logdir.ok()) << logdir.status();
  EXPECT_EQ(logdir->url(), "s3://bucket/logs");
  EXPECT_EQ(logdir->options().at("endpoint"), "https://s3.example:9000");
  EXPECT_EQ(logdir->options().at("region"), "x");
  EXPECT_EQ(logdir->RunUrl("r"), "s3://bucket/logs/plugins/profile/r");
}

TEST(Logdir, NamesRunsAsXProfListsThem) {
  EXPECT_EQ(Logdir::Parse("/logs")->RunUrl("r1"), "file:///logs/plugins/profile/r1");
  EXPECT_EQ(Logdir::Parse("/")->RunUrl("r1"), "file:///plugins/profile/r1");
  EXPECT_EQ(TraceKey("r1", "w0"), "plugins/profile/r1/w0.xplane.pb");
  EXPECT_EQ(ManifestKey("r1"), "plugins/profile/r1/strobe.json");
  constexpr WallTime kTime{1'795'234'104s};
  EXPECT_EQ(DefaultRunName(kTime, "first-look", ""), "2026_11_21_04_08_24_first-look");
  EXPECT_EQ(DefaultRunName(kTime, "first-look", "8ffe93fd-a603-4e2a-8d83-68fc2051835f"),
            "2026_11_21_04_08_24_first-look_8ffe93fd");
  EXPECT_EQ(RunOfAttempt("r", 1), "r");
  EXPECT_EQ(RunOfAttempt("r", 2), "r_attempt2");
  EXPECT_EQ(RunOfUrl("s3://b/x/plugins/profile/r_attempt2", 2), "r");
  EXPECT_EQ(RunOfUrl("s3://b/x/plugins/profile/r_attempt2", 1), "r_attempt2");
  EXPECT_EQ(RunOfUrl("s3://b/x/plugins/profile/r", 2), "") << "not of that attempt";
  EXPECT_EQ(RunOfUrl("", 0), "");
  EXPECT_EQ(RunOfTraceUrl("s3://b/x/plugins/profile/r_2/w0.xplane.pb"), "r_2");
  EXPECT_EQ(RunOfTraceUrl("s3://b/x/plugins/profile/../w0.xplane.pb"), "");
  EXPECT_EQ(RunOfTraceUrl("w0.xplane.pb"), "");
  EXPECT_EQ(RunOfTraceUrl("/r/strobe.json"), "");
}

TEST(Logdir, RunsOfLongNamesStaySafeNames) {
  const std::string run = DefaultRunName(WallTime{}, std::string(253, 'n'), "8ffe93fd-a603");
  EXPECT_LE(RunOfAttempt(run, 10).size(), 253u);
  EXPECT_TRUE(run.ends_with("_8ffe93fd")) << "what tells runs apart is not what is cut";
}

TEST(TraceNames, NeedAWorkerAndLieDirectlyInTheFolder) {
  EXPECT_TRUE(IsSpaceName("w.xplane.pb"));
  EXPECT_TRUE(IsTraceJsonName("rank0.pt.trace.json"));
  EXPECT_TRUE(IsTraceJsonName("rank0.trace.json.gz"));
  for (const char* name :
       {"", ".xplane.pb", "sub/w.xplane.pb", "w.xplane.pb/", "w.xplane.pbx", "w"})
    EXPECT_FALSE(IsSpaceName(name)) << name;
  for (const char* name : {"", "strobe.json", "sub/r.trace.json", "r.trace.json/"})
    EXPECT_FALSE(IsTraceJsonName(name)) << name;
}

TEST(AbsoluteLocation, OnlyARelativePathChanges) {
  const std::string here = std::filesystem::current_path().native();
  EXPECT_EQ(AbsoluteLocation("logdir"), here + "/logdir");
  EXPECT_EQ(AbsoluteLocation("./logs/../logdir"), here + "/logdir");
  for (const char* place : {"", "/logs", "s3://bucket/logs", "file:///logs", "memory://x"})
    EXPECT_EQ(AbsoluteLocation(place), place);
}

}  // namespace
}  // namespace strobe::storage
