#include "common/protocol/outcome.h"

#include <gtest/gtest.h>

#include <set>

#include "common/base/files.h"
#include "common/base/strings.h"
#include "strobe/v1/worker.pb.h"
#include "tests/fakes/unit_dir.h"

namespace strobe {
namespace {

TEST(Outcome, NumbersAreThoseOnTheWire) {
  EXPECT_EQ(AllOutcomes().size(), static_cast<std::size_t>(v1::Outcome_ARRAYSIZE));
  for (std::size_t i = 0; i < AllOutcomes().size(); ++i)
    EXPECT_EQ(static_cast<std::size_t>(AllOutcomes()[i].outcome), i);
}

TEST(Outcome, NamesAreThoseOnTheWireInCamelCase) {
  for (const OutcomeInfo& info : AllOutcomes()) {
    if (info.outcome == Outcome::kUnknown) continue;
    std::string camel;
    bool up = true;
    for (const char c : v1::Outcome_Name(static_cast<v1::Outcome>(info.outcome))) {
      if (c == '_')
        up = true;
      else
        camel += up ? c : static_cast<char>(c - 'A' + 'a'), up = c == '_';
    }
    EXPECT_EQ(info.name, camel);
  }
}

// The API server would refuse a status with a cause that the schema lacks.
TEST(Outcome, TheSchemaHasEveryCauseButOk) {
  const auto schema = ReadTextFile(UnitDir() + "/../../helm/strobe/crds/profilerequests.yaml");
  ASSERT_TRUE(schema.ok()) << schema.status();
  std::string text;
  for (const char c : *schema) {
    if (c != ' ' && c != '\n') text += c;
  }
  std::string names;
  for (const OutcomeInfo& info : AllOutcomes()) {
    if (info.outcome != Outcome::kOk) names += StrCat(names.empty() ? "" : ",", info.name);
  }
  const std::string listed = StrCat("enum:[", names, "]");
  const std::size_t outcomes = text.find(listed);
  ASSERT_NE(outcomes, std::string::npos) << "status.outcomes must list " << names;
  EXPECT_NE(text.find(listed, outcomes + 1), std::string::npos) << "status.causes must list them";
}

TEST(Outcome, EveryCauseSaysHowItIsKnownAndWhatToDo) {
  std::set<std::string_view> names;
  for (const OutcomeInfo& info : AllOutcomes()) {
    EXPECT_TRUE(names.insert(info.name).second);
    EXPECT_TRUE(info.detected.ends_with('.')) << info.name;
    EXPECT_TRUE(info.remedy.ends_with('.')) << info.name;
  }
}

TEST(Outcome, AMissingSidecarIsInjectedByEitherLabel) {
  const std::string remedy(Describe(Outcome::kSidecarMissing).remedy);
  EXPECT_NE(remedy.find("pod template, or the namespace,"), std::string::npos) << remedy;
}

}  // namespace
}  // namespace strobe
