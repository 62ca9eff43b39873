#include "cli/capture/capture_flags.h"

#include <gmock/gmock.h>

#include <functional>
#include <utility>
#include <vector>

namespace strobe::cli {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::MatchesRegex;

// 2026-11-21 08:30:00 UTC.
constexpr WallTime kAskedAt{1'795'249'800s};

CaptureFlags Flags() {
  CaptureFlags flags;
  flags.logdir = "/logs";
  return flags;
}

TEST(ParseCaptureFlags, HasTheDefaultsOfTheHelpText) {
  const auto spec = ParseCaptureFlags(Flags(), 4, kAskedAt);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->duration, 1s);
  EXPECT_EQ(spec->delay, std::nullopt);
  EXPECT_EQ(spec->guard, std::nullopt);
  EXPECT_EQ(spec->collect_timeout, std::nullopt);
  EXPECT_EQ(spec->max_skew, std::nullopt);
  EXPECT_EQ(spec->ready_timeout, 0s);
  EXPECT_EQ(spec->min_workers, 4u);
  EXPECT_EQ(spec->attempts, 3);
  EXPECT_EQ(spec->on_late_start, capture::OnLateStart::kKeep);
  EXPECT_EQ(spec->tracers.host(), 2u);
  EXPECT_EQ(spec->tracers.device(), 1u);
  EXPECT_EQ(spec->abort_memory_percent, kDefaultAbortMemoryPercent);
  EXPECT_THAT(spec->run, MatchesRegex("2026_11_21_08_30_00_capture_.+"));
  EXPECT_THAT(spec->uid, MatchesRegex("cli-[0-9]+-1795249800000000000"));
}

TEST(ParseCaptureFlags, ReadsWhatIsGiven) {
  CaptureFlags flags = Flags();
  flags.run = "mine";
  flags.duration = "10m";
  flags.delay = "5s";
  flags.guard = "7ms";
  flags.max_skew = "2ms";
  flags.max_pause = "500ms";
  flags.collect_timeout = "1m";
  flags.ready_timeout = "1h";
  flags.min_workers = "50%";
  flags.on_late_start = "Discard";
  flags.abort_slowdown = 150;
  flags.max_bytes = 1000;
  flags.min_running_requests = 2;
  const auto spec = ParseCaptureFlags(flags, 5, kAskedAt);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->run, "mine");
  EXPECT_EQ(spec->duration, 10min);
  EXPECT_EQ(spec->delay, 5s);
  EXPECT_EQ(spec->guard, 7ms);
  EXPECT_EQ(spec->max_skew, 2ms);
  EXPECT_EQ(spec->max_pause, 500ms);
  EXPECT_EQ(spec->collect_timeout, 1min);
  EXPECT_EQ(spec->ready_timeout, 1h);
  EXPECT_EQ(spec->min_workers, 3u) << "rounded up";
  EXPECT_EQ(spec->on_late_start, capture::OnLateStart::kDiscard);
  EXPECT_EQ(spec->abort_slowdown_percent, 150u);
  EXPECT_EQ(spec->max_bytes, 1000u);
  EXPECT_EQ(spec->min_running_requests, 2u);
}

TEST(ParseCaptureFlags, NamesTheFlagThatIsWrong) {
  const std::pair<std::function<void(CaptureFlags&)>, std::string> wrong[] = {
      {[](CaptureFlags& f) { f.logdir = "s3://"; }, "s3://"},
      {[](CaptureFlags& f) { f.run = "a/b"; }, "--run"},
      {[](CaptureFlags& f) { f.run = std::string(201, 'a'); }, "--run"},
      {[](CaptureFlags& f) { f.duration = "2"; }, "--duration \"2\""},
      {[](CaptureFlags& f) { f.duration = "999us"; }, "from 1ms to 10m"},
      {[](CaptureFlags& f) { f.duration = "11m"; }, "from 1ms to 10m"},
      {[](CaptureFlags& f) { f.delay = "soon"; }, "--delay: "},
      {[](CaptureFlags& f) { f.delay = "2h"; }, "--delay must be at most 1h"},
      {[](CaptureFlags& f) { f.guard = "-1s"; }, "--guard: "},
      {[](CaptureFlags& f) { f.ready_timeout = "2h"; }, "--ready-timeout must be at most 1h"},
      {[](CaptureFlags& f) { f.collect_timeout = "10ms"; },
       "--collect-timeout must be at least 1s"},
      {[](CaptureFlags& f) { f.max_skew = "x"; }, "--max-skew: "},
      {[](CaptureFlags& f) { f.max_pause = "11m"; }, "--max-pause must be from 1ms to 10m"},
      {[](CaptureFlags& f) { f.min_workers = "0"; }, "--min-workers: "},
  };
  for (const auto& [spoil, words] : wrong) {
    CaptureFlags flags = Flags();
    spoil(flags);
    const auto spec = ParseCaptureFlags(flags, 4, kAskedAt);
    EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << words;
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(words));
  }
}

TEST(AddCaptureFlags, FillsTheFlagsFromACommandLine) {
  CLI::App app;
  CaptureFlags flags;
  AddCaptureFlags(app, flags);
  app.parse(
      "--workers a:1,b:1 --logdir /logs --on-late-start Discard --abort-memory Never --quiet");
  EXPECT_EQ(flags.workers, "a:1,b:1");
  EXPECT_EQ(flags.logdir, "/logs");
  EXPECT_EQ(flags.on_late_start, "Discard");
  EXPECT_EQ(flags.abort_memory, 0u);
  EXPECT_TRUE(flags.quiet);
  for (const char* bad : {"--attempts 11", "--min-running-requests 0"})
    EXPECT_THROW(app.parse(StrCat("--workers a:1 --logdir /logs ", bad)), CLI::ValidationError);
}

TEST(AddCaptureFlags, TakesLevelsByNameAndByNumber) {
  CLI::App app;
  CaptureFlags flags;
  AddCaptureFlags(app, flags);
  const std::string needed = "--workers a:1 --logdir /logs ";
  app.parse(needed +
            "--host-tracer-level verbose --device-tracer-level Disabled --python-tracer-level 1");
  EXPECT_EQ(flags.tracers.host, 3u);
  EXPECT_EQ(flags.tracers.device, 0u);
  EXPECT_EQ(flags.tracers.python, 1u);
  for (const char* bad : {"--host-tracer-level 4", "--host-tracer-level Off",
                          "--device-tracer-level Info", "--python-tracer-level 2"})
    EXPECT_THROW(app.parse(needed + bad), CLI::ValidationError) << bad;
}

// Regression: these flags were dropped without a word when servers save their traces themselves.
TEST(ParseCaptureFlags, RefusesWhatServersThatSaveCannotDo) {
  for (const auto& [name, give] : std::vector<std::pair<const char*, void (*)(CaptureFlags&)>>{
           {"--steps", [](CaptureFlags& flags) { flags.steps = 3; }},
           {"--look-back", [](CaptureFlags& flags) { flags.look_back = "1s"; }},
           {"--ready-timeout", [](CaptureFlags& flags) { flags.ready_timeout = "1s"; }},
           {"--min-running-requests", [](CaptureFlags& flags) { flags.min_running_requests = 1; }},
           {"--guard", [](CaptureFlags& flags) { flags.guard = "7ms"; }},
           {"--max-skew", [](CaptureFlags& flags) { flags.max_skew = "2ms"; }},
           {"--max-pause", [](CaptureFlags& flags) { flags.max_pause = "2s"; }},
           {"--on-late-start", [](CaptureFlags& flags) { flags.on_late_start = "Discard"; }},
           {"--ranks", [](CaptureFlags& flags) { flags.ranks = {0}; }},
           {"--local-ranks", [](CaptureFlags& flags) { flags.local_ranks = {0}; }},
           {"--max-bytes-per-worker", [](CaptureFlags& flags) { flags.max_bytes = 1000; }},
           {"--abort-slowdown", [](CaptureFlags& flags) { flags.abort_slowdown = 50; }},
       }) {
    CaptureFlags flags = Flags();
    give(flags);
    EXPECT_TRUE(ParseCaptureFlags(flags, 1, kAskedAt).ok()) << name;
    flags.server_saves = true;
    const auto saves = ParseCaptureFlags(flags, 1, kAskedAt);
    EXPECT_EQ(saves.status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(saves.status().message()), HasSubstr(name));
    EXPECT_THAT(std::string(saves.status().message()), HasSubstr("--server-saves"));
    flags.server_saves = false;
    flags.worker_list = "10.0.0.2";
    EXPECT_THAT(std::string(ParseCaptureFlags(flags, 1, kAskedAt).status().message()),
                HasSubstr("--worker-list"));
  }
  CaptureFlags flags = Flags();
  flags.server_saves = true;
  flags.delay = "2s";
  flags.collect_timeout = "1m";
  EXPECT_TRUE(ParseCaptureFlags(flags, 1, kAskedAt).ok());
}

TEST(AddCaptureFlags, LimitsAreQuantitiesAndPercentages) {
  CLI::App app;
  CaptureFlags flags;
  AddCaptureFlags(app, flags);
  const std::string needed = "--workers a:1 --logdir /logs ";
  app.parse(needed + "--max-bytes-per-worker 512Mi --abort-memory 90");
  EXPECT_EQ(flags.max_bytes, 512ull << 20);
  EXPECT_EQ(flags.abort_memory, 90u);
  for (const char* bad : {"--max-bytes-per-worker 0", "--max-bytes-per-worker 1GiB",
                          "--abort-memory 0", "--abort-slowdown 0", "--host-filter 0"})
    EXPECT_THROW(app.parse(needed + bad), CLI::ValidationError) << bad;
}

TEST(SetRoles, EachRoleNeedsEnoughWorkers) {
  std::vector<capture::Target> targets(5);
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i].role = i == 0 ? "prefill" : "decode";
  CaptureFlags flags;
  flags.min_workers = "50%";
  capture::Spec spec;
  ASSERT_TRUE(SetRoles(flags, targets, spec).ok());
  ASSERT_EQ(spec.roles.size(), 2u);
  EXPECT_EQ(spec.roles[0].role, "decode");
  EXPECT_EQ(spec.roles[0].min_workers, 2u);
  EXPECT_EQ(spec.roles[1].min_workers, 1u);
  EXPECT_EQ(spec.min_workers, 3u);
}

TEST(SetRoles, WorkersWithoutRolesStayAsTheyAre) {
  capture::Spec spec;
  spec.min_workers = 2;
  ASSERT_TRUE(SetRoles({}, std::vector<capture::Target>(2), spec).ok());
  EXPECT_TRUE(spec.roles.empty());
  EXPECT_EQ(spec.min_workers, 2u);
}

TEST(SetRoles, RolesHaveNoStepsInCommon) {
  std::vector<capture::Target> targets(2);
  targets[0].role = "prefill";
  targets[1].role = "decode";
  capture::Spec spec;
  spec.steps = capture::StepsWanted{.count = 5};
  EXPECT_FALSE(SetRoles({}, targets, spec).ok());
}

}  // namespace
}  // namespace strobe::cli
