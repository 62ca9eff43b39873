#include "viewer/report/evidence_page.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"

namespace strobe::viewer {
namespace {

using EvidenceJson = nlohmann::ordered_json;
using testing::HasSubstr;

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
