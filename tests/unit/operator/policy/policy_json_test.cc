#include "operator/policy/policy_json.h"

#include <gmock/gmock.h>

namespace strobe::policy {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using testing::HasSubstr;

ProfilePolicy ParsedPolicy(const char* automatic) {
  return ParsePolicy(
      {{"metadata", {{"name", "team"}}},
       {"spec", {{"allowedLogdirs", {"/logs"}}, {"automatic", Json::parse(automatic)}}}});
}

TEST(PolicyJson, BoundsOfCapturesThatStartThemselvesAreRead) {
  const ProfilePolicy policy = ParsedPolicy(R"({"coolDown": "10m", "capturesPerDay": 48,
      "dutyCycle": "0.5%", "bytesPerDay": "20Gi", "maxConcurrent": 1, "keep": {"runs": 50, "for": "720h"}})");
  EXPECT_EQ(policy.invalid, "");
  const AutomaticLimits& limits = policy.automatic;
  EXPECT_EQ(limits.budget.cool_down, 10min);
  EXPECT_EQ(limits.budget.captures_per_day, 48);
  EXPECT_DOUBLE_EQ(*limits.budget.duty_cycle, 0.005);
  EXPECT_EQ(limits.budget.bytes_per_day, 20ULL << 30);
  EXPECT_EQ(limits.max_concurrent, 1);
  EXPECT_EQ(limits.keep_runs, 50u);
  EXPECT_EQ(limits.keep_for, 720h);
}

TEST(PolicyJson, WithoutBoundsNothingIsBounded) {
  for (const AutomaticLimits& limits :
       {ParsedPolicy("{}").automatic, ParsedPolicy(R"({"keep": {"runs": 1}})").automatic}) {
    EXPECT_FALSE(limits.bounds_starts());
    EXPECT_FALSE(limits.budget.any());
  }
  EXPECT_TRUE(ParsedPolicy(R"({"maxConcurrent": 1})").automatic.bounds_starts());
}

// The schema refuses these, but an older one may be installed.
TEST(PolicyJson, ABoundThatIsWrongAllowsNothingAndIsNamed) {
  for (const auto& [automatic, words] : std::vector<std::pair<const char*, const char*>>{
           {R"({"coolDown": "1s"})", "automatic.coolDown: it must be from 10s to 24h"},
           {R"({"capturesPerDay": 0})", "automatic.capturesPerDay"},
           {R"({"dutyCycle": "0.5"})", "automatic.dutyCycle"},
           {R"({"bytesPerDay": "many"})", "automatic.bytesPerDay"},
           {R"({"maxConcurrent": 0})", "automatic.maxConcurrent"},
           {R"({"keep": {"runs": 0}})", "automatic.keep.runs"},
           {R"({"keep": {"runs": -1}})", "automatic.keep.runs"},
           {R"({"keep": {"for": "30s"}})", "automatic.keep.for"},
           {R"({"keep": {"for": 5}})", "wrong type"},
           {R"({"capturesPerDay": "many"})", "wrong type"},
           {R"([])", "wrong type"}}) {
    EXPECT_THAT(ParsedPolicy(automatic).invalid, HasSubstr(words)) << automatic;
  }
}

}  // namespace
}  // namespace strobe::policy
