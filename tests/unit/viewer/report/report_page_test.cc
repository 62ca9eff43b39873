#include "viewer/report/report_page.h"

#include <gmock/gmock.h>

#include "collector/trace/report/role_report.h"
#include "collector/trace/report/run_report.h"
#include "common/base/strings.h"
#include "tests/fakes/synthetic_job.h"

namespace strobe::viewer {
namespace {

using ReportJson = nlohmann::ordered_json;
using testing::HasSubstr;

std::string ReportText(std::size_t workers = 8, std::size_t steps = 20) {
  report::RunReport report;
  for (const digest::Digest& digest :
       Simulate({.workers = workers,
       .steps = steps,
       .slowed = {{.worker = 3, .cause = report::Cause::kInput, .ms = 20}}})
           .digests)
    report.Add(digest);
  report.AddMissing("<b>gone</b>", "its sidecar is gone");
  return report.Finish("uid-1", "run", 2 << 20).json;
}

std::string WhyNot(const std::string& text) {
  const auto read = ReadReport(text);
  return read.ok() ? "" : MessageOf(read.status());
}

TEST(ReadReport, ShowsTheIterationsOfAServer) {
  report::RunReport report;
  report.Add({.worker = "vllm-0",
              .names = {"engine"},
              .steps = {{.number = 7,
                         .begin_ns = 1000,
                         .end_ns = 9000,
                         .annotation_end_ns = 9000,
                         .batch = {.decode_requests = 4, .decode_tokens = 4}}}});
  const std::string text = report.Finish("uid-1", "run", 2 << 20).json;
  const auto shown = ReadReport(text);
  ASSERT_TRUE(shown.ok()) << shown.status();
  const ReportJson& batch = (*shown)["engine"]["sizes"][0];
  EXPECT_EQ(batch["phase"], "decode");
  EXPECT_EQ(batch["most"], 4);
  EXPECT_EQ(batch["p50Ns"], 8000);
  EXPECT_TRUE(ComparesWorkers(*shown)) << "it says more than the timeline";
}

TEST(ReadReport, ShowsWhatAReportSays) {
  const std::string text = ReportText();
  const ReportJson whole = ReportJson::parse(text);
  const auto shown = ReadReport(text);
  ASSERT_TRUE(shown.ok()) << shown.status();
  for (const char* same : {"headline", "figures", "steps", "missing", "missingWorkers"})
    EXPECT_EQ((*shown)[same], whole[same]) << same;
  const ReportJson& stragglers = whole["stragglers"];
  const ReportJson& straggler = (*shown)["stragglers"]["stragglers"][0];
  EXPECT_EQ(straggler["worker"], "worker-3");
  EXPECT_EQ(straggler["heldUp"], stragglers["stragglers"][0]["heldUp"]);
  EXPECT_EQ(straggler["causes"], stragglers["stragglers"][0]["causes"]);
  EXPECT_EQ((*shown)["stragglers"]["waitMap"], stragglers["waitMap"]);
  EXPECT_EQ(straggler["evidence"], "clocks");
  EXPECT_TRUE(straggler["latestStep"].is_number());
  const ReportJson& advice = (*shown)["stragglers"]["advice"];
  ASSERT_EQ(advice.size(), stragglers["advice"].size());
  for (const char* same : {"share", "what", "next", "link", "worker", "step"})
    EXPECT_EQ(advice[0][same], stragglers["advice"][0][same]) << same;
  EXPECT_EQ((*shown)["stragglers"]["groups"].size(), 1u);
  ASSERT_EQ((*shown)["workers"].size(), 8u);
  EXPECT_EQ((*shown)["workersMore"], 0);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ((*shown)["workers"][i]["time"]["computeNs"],
              whole["workers"][i]["time"]["computeNs"]);
    EXPECT_EQ((*shown)["workers"][i]["madeWaitNs"], stragglers["waits"][i]["madeWaitNs"]);
  }
  EXPECT_TRUE(ComparesWorkers(*shown));
}

TEST(ReadReport, ShowsAReportForEachRole) {
  report::RoleReport roles;
  for (const char* role : {"prefill", "decode"}) {
    SimulatedJob job = Simulate({.workers = 4});
    for (digest::Digest& digest : job.digests) {
      digest.role = role;
      roles.Add(digest);
    }
  }
  const std::string text = roles.Finish("uid-1", "run", 2 << 20).json;
  const auto shown = ReadReport(text);
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_TRUE((*shown)["stragglers"].is_null());
  ASSERT_EQ((*shown)["roles"].size(), 2u);
  const ReportJson& decode = (*shown)["roles"][0];
  EXPECT_EQ(decode["role"], "decode");
  EXPECT_EQ(decode["group"], "");
  EXPECT_EQ(decode["workers"].size(), 4u);
  EXPECT_EQ(decode["stragglers"]["waitMap"],
            ReportJson::parse(text)["roles"][0]["stragglers"]["waitMap"]);
  EXPECT_TRUE(ComparesWorkers(*shown));
  EXPECT_EQ(WhyNot(R"({"format": 1, "roles": 5})"), "report.roles is not a list");
  EXPECT_EQ(WhyNot(R"({"format": 1, "roles": [{"role": 5}]})"),
            "report.roles[0].role is not a text");
}

TEST(ReadReport, OfALargeJobShowsWhoOthersLoseMostTimeBy) {
  ReportJson workers = ReportJson::array(), waits = ReportJson::array();
  for (int i = 0; i < 2000; ++i) {
    workers.push_back({{"worker", StrCat("w", i)}, {"rank", i}});
    waits.push_back({{"worker", StrCat("w", i)}, {"madeWaitNs", i == 7 ? 0 : i}});
  }
  const ReportJson late = {{"worker", "w7"}, {"verdict", "HoldsUp"}};
  const ReportJson text = {{"format", 1},
                           {"workers", workers},
                           {"stragglers", {{"stragglers", {late}}, {"waits", waits}}}};
  const auto shown = ReadReport(text.dump());
  ASSERT_TRUE(shown.ok()) << shown.status();
  ASSERT_EQ((*shown)["workers"].size(), kShownWorkers);
  EXPECT_EQ((*shown)["workersMore"], 2000 - kShownWorkers);
  EXPECT_EQ((*shown)["workers"][0]["worker"], "w7") << "it is named";
  EXPECT_EQ((*shown)["workers"][1]["worker"], StrCat("w", 2000 - kShownWorkers + 1));
  EXPECT_LT(shown->dump().size(), 20'000u);
}

TEST(ReadReport, WhatIsNotToldIsNull) {
  const auto shown = ReadReport(R"({"format": 1, "headline": "not decidable: no trace"})");
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_TRUE((*shown)["stragglers"].is_null());
  EXPECT_TRUE((*shown)["figures"].is_null());
  EXPECT_TRUE((*shown)["workers"].empty());
  EXPECT_FALSE(ComparesWorkers(*shown));
}

TEST(ReadReport, WhatIsNoReportIsToldByItsPlace) {
  const auto changed = [](const char* pointer, const ReportJson& value) {
    ReportJson report = ReportJson::parse(ReportText());
    report[ReportJson::json_pointer(pointer)] = value;
    return WhyNot(report.dump());
  };
  EXPECT_EQ(WhyNot(""), "it is no JSON object");
  EXPECT_EQ(WhyNot("[1]"), "it is no JSON object");
  EXPECT_EQ(WhyNot("{\"format\": 1, \"headline\": \"\xff\"}"), "it is no JSON object");
  EXPECT_EQ(WhyNot(ReportText().substr(0, 500)), "it is no JSON object");
  EXPECT_THAT(WhyNot(std::string(kMaxReportRead + 1, ' ')), HasSubstr("more than any report"));
  EXPECT_THAT(changed("/format", 2), HasSubstr("its format is not one that this viewer knows"));
  EXPECT_EQ(changed("/headline", {"<b>"}), "report.headline is not a text");
  EXPECT_EQ(changed("/workers/2/time/idleNs", "many"),
            "report.workers[2].time.idleNs is not a number up to 1e18");
  EXPECT_EQ(changed("/workers/2/time/idleNs", 1e300),
            "report.workers[2].time.idleNs is not a number up to 1e18");
  EXPECT_EQ(changed("/stragglers", 3), "report.stragglers is not an object");
  EXPECT_EQ(changed("/ops", "<b>"), "report.ops is not a list");
  EXPECT_EQ(changed("/ops/0", nullptr), "report.ops[0] is not an object");
  EXPECT_EQ(changed("/stragglers/waitMap/errorNs/1", ReportJson::array()),
            "stragglers.waitMap.errorNs is not one row per worker");
}

// Every value of a report is replaced by every kind of another one.
TEST(ReadReport, SurvivesAnyValueAnywhere) {
  const ReportJson report = ReportJson::parse(ReportText(4, 4));
  const ReportJson flat = report.flatten();
  const ReportJson others[] = {nullptr,    true,
                               -1,         1e300,
                               "<b>x</b>", ReportJson::array(),
                               {{"a", 1}}, ReportJson::array({ReportJson::array({nullptr})})};
  std::size_t refused = 0;
  for (const auto& [pointer, value] : flat.items()) {
    for (ReportJson::json_pointer at(pointer); !at.empty(); at.pop_back()) {
      for (const ReportJson& other : others) {
        ReportJson changed = report;
        changed[at] = other;
        const auto shown = ReadReport(changed.dump());
        if (shown.ok()) continue;
        ++refused;
        EXPECT_FALSE(MessageOf(shown.status()).empty());
      }
      if (at.back() != "0") break;  // All entries of a list behave alike.
    }
  }
  EXPECT_GT(refused, 500u);
}

TEST(ReadReport, DeepNestingAndLongTextsTakeLittle) {
  std::string deep = R"({"format": 1, "headline": "x", "stragglers": {"unknown": )";
  deep += std::string(1 << 20, '[') + std::string(1 << 20, ']') + "}}";
  EXPECT_FALSE(WhyNot(deep).empty());
  const ReportJson longer = {{"format", 1}, {"headline", std::string(100'000, 'x')}};
  EXPECT_EQ((*ReadReport(longer.dump()))["headline"].get<std::string>().size(), 1000u);
  ReportJson many = {{"format", 1}, {"ops", ReportJson::array()}};
  for (int i = 0; i < 5000; ++i) many["ops"].push_back({{"name", "a"}, {"count", i}});
  const auto shown = ReadReport(many.dump());
  EXPECT_EQ((*shown)["ops"].size(), kShownOps);
  EXPECT_EQ((*shown)["opsMore"], 5000 - kShownOps);
}

TEST(ReadReport, OperationsOfDevicesReplaceThoseOfTheHost) {
  const auto ops_of = [](const std::vector<std::pair<std::string, std::string>>& ops,
                         bool of_devices) {
    ReportJson report = {{"format", 1}, {"ops", ReportJson::array()}};
    for (const auto& [name, kind] : ops) report["ops"].push_back({{"name", name}, {"kind", kind}});
    std::vector<std::string> shown;
    const auto read = ReadReport(report.dump());
    for (const ReportJson& op : (*read)["ops"]) shown.push_back(op["name"]);
    EXPECT_EQ((*read)["opsOfDevices"], of_devices);
    return shown;
  };
  EXPECT_THAT(ops_of({{"train", "host"},
                      {"step", "scope"},
                      {"gemm", "compute"},
                      {"next", "input"},
                      {"sum", "communication"},
                      {"HtoD", "copy"}},
                     /*of_devices=*/true),
              testing::ElementsAre("gemm", "sum", "HtoD"));
  EXPECT_THAT(ops_of({{"train", "host"}, {"next", "input"}}, /*of_devices=*/false),
              testing::ElementsAre("train", "next"));
}

using EvidenceJson = nlohmann::ordered_json;

// As operators write it.
EvidenceJson Evidence() {
  return EvidenceJson::parse(R"({"format": 1, "captureId": "uid-1", "run": "run",
    "headline": "rank 2 holds up 3 others", "lookedAt": "2026-11-28T00:00:00Z",
    "verdict": {"class": "host", "confidence": "firm", "ranks": [2],
                "text": "rank 2 holds up 3 others\nFirm: stacks of 4.\n"},
    "stacks": [{"ranks": [2], "thread": "main", "keepGil": [2], "moved": [],
                "frames": [{"file": "/app/job.py", "line": 39, "name": "culprit"}]},
               {"ranks": [0, 1, 3], "thread": "main", "keepGil": [], "moved": [], "frames": []}],
    "workers": [{"name": "llm-0", "files": ["0.a.fr"], "notes": ["n"]},
                {"name": "llm-4", "missing": "its sidecar is gone", "files": []}]})");
}

std::string WhyNoVerdict(const std::string& text) {
  const auto read = ReadVerdict(text);
  return read.ok() ? "" : MessageOf(read.status());
}

TEST(ReadVerdict, ShowsVerdictStacksAndWhoIsMissing) {
  const auto shown = ReadVerdict(Evidence().dump());
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ((*shown)["class"], "host");
  EXPECT_EQ((*shown)["confidence"], "firm");
  EXPECT_EQ((*shown)["lines"],
            EvidenceJson::parse(R"(["rank 2 holds up 3 others", "Firm: stacks of 4."])"));
  EXPECT_EQ((*shown)["stacks"], Evidence()["stacks"]);
  EXPECT_EQ((*shown)["missing"],
            EvidenceJson::parse(R"([{"worker": "llm-4", "why": "its sidecar is gone"}])"));
}

TEST(ReadVerdict, WhatWasLeftOutIsMissing) {
  EvidenceJson without = Evidence();
  without.erase("stacks");
  without.erase("workers");
  const auto shown = ReadVerdict(without.dump());
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ((*shown)["lines"].size(), 2u);
  EXPECT_EQ((*shown)["stacks"], EvidenceJson::array());
  EXPECT_EQ((*shown)["missing"], EvidenceJson::array());
  const auto nothing = ReadVerdict(R"({"format": 1})");
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_EQ((*nothing)["lines"].size(), 1u) << "the page takes the first";
}

TEST(ReadVerdict, IsBounded) {
  EvidenceJson large = Evidence();
  const EvidenceJson frame = {{"file", std::string(5000, 'f')}, {"line", 1}, {"name", "n"}};
  large["stacks"][0]["frames"] = EvidenceJson(kShownFrames + 7, frame);
  large["stacks"][1]["ranks"] = EvidenceJson(kShownRanks + 5, 3);
  large["verdict"]["text"] = std::string(100'000, 'x');
  for (int i = 0; i < 30; ++i) large["workers"].push_back(large["workers"][1]);
  const auto shown = ReadVerdict(large.dump());
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ((*shown)["stacks"][0]["framesMore"], 7);
  EXPECT_EQ((*shown)["stacks"][1]["ranksMore"], 5);
  EXPECT_EQ((*shown)["missing"].size(), kShownSilent);
  EXPECT_EQ((*shown)["missingMore"], 31 - kShownSilent);
  EXPECT_LT(shown->dump().size(), 300'000u);
  EXPECT_THAT(WhyNoVerdict(std::string(kMaxEvidenceRead + 1, ' ')), HasSubstr("more than any"));
}

TEST(ReadVerdict, WhatIsNoneIsToldByItsPlace) {
  const auto changed = [](const char* pointer, const EvidenceJson& value) {
    EvidenceJson evidence = Evidence();
    evidence[EvidenceJson::json_pointer(pointer)] = value;
    return WhyNoVerdict(evidence.dump());
  };
  EXPECT_EQ(WhyNoVerdict("no"), "evidence is not an object");
  EXPECT_EQ(WhyNoVerdict("[]"), "evidence is not an object");
  EXPECT_EQ(WhyNoVerdict("{}"), "its format is not one that this viewer knows");
  EXPECT_EQ(changed("/format", 2), "its format is not one that this viewer knows");
  EXPECT_EQ(changed("/verdict", "no"), "evidence.verdict is not an object");
  EXPECT_EQ(changed("/stacks/0/ranks", "2"), "evidence.stacks[0].ranks is not a list");
  EXPECT_EQ(changed("/stacks/0/frames/0/line", "39"),
            "evidence.stacks[0].frames[0].line is not a number up to 1e18");
  EXPECT_EQ(changed("/workers/1/missing", 1), "evidence.workers[1].missing is not a text");
}

}  // namespace
}  // namespace strobe::viewer
