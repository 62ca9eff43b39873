#include "cli/outcomes_command.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "common/protocol/outcome.h"

namespace strobe::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Outcomes, EachOneHasARowOfThePage) {
  const std::string page = OutcomesAsMarkdown();
  for (const OutcomeInfo& info : AllOutcomes()) {
    const std::string row = "\n| `" + std::string(info.name) + "` |";
    if (info.outcome == Outcome::kUnknown)
      EXPECT_THAT(page, Not(HasSubstr(row))) << "it is no end of a capture";
    else
      EXPECT_THAT(page, HasSubstr(row));
  }
}

TEST(Outcomes, OneCanBeExplainedByItself) {
  EXPECT_THAT(OutcomesAsText("LateStart"), StartsWith("LateStart\n"));
  const auto json = nlohmann::json::parse(OutcomesAsJson("LateStart"));
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["name"], "LateStart");
  EXPECT_EQ(json[0]["hasTrace"], true);
  EXPECT_EQ(json[0]["remedy"], Describe(Outcome::kLateStart).remedy);
}

TEST(Outcomes, AnUnknownNameHasNoText) {
  EXPECT_EQ(OutcomesAsText("Nonsense"), "");
  EXPECT_EQ(OutcomesAsJson("Nonsense"), "");
}

}  // namespace
}  // namespace strobe::cli
