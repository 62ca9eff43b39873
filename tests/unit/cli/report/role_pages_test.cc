#include "cli/report/role_pages.h"

#include <gmock/gmock.h>

#include <utility>

#include "tests/fakes/synthetic_job.h"

namespace strobe::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

DigestsByRole PrefillAndDecode() {
  const SyntheticJob prefill{.workers = 8};
  SyntheticJob decode = prefill;
  decode.slowed = {{.worker = 3, .cause = report::Cause::kInput, .ms = 20}};
  std::vector<digest::Digest> all;
  for (const SyntheticJob* job : {&prefill, &std::as_const(decode)}) {
    SimulatedJob simulated = Simulate(*job);
    for (digest::Digest& digest : simulated.digests) {
      digest.role = job == &prefill ? "prefill" : "decode";
      all.push_back(std::move(digest));
    }
  }
  return DivideByRole(std::move(all));
}

TEST(DivideByRole, KeepsTheOrderWithinARole) {
  const DigestsByRole roles = PrefillAndDecode();
  ASSERT_EQ(roles.size(), 2u);
  EXPECT_EQ(roles.begin()->first, "decode");
  EXPECT_EQ(roles.at("prefill")[7].worker, "worker-7");
}

TEST(RolesPage, HasASectionForEachRole) {
  const ReportDocument page = RolesPage("run", PrefillAndDecode(), {});
  EXPECT_THAT(page.headline, StartsWith("decode: rank 3 holds up 7 others by "));
  EXPECT_THAT(page.headline, HasSubstr("; prefill: "));
  const std::string text = RenderText(page);
  EXPECT_THAT(text, HasSubstr("\nprefill: no straggler"));
  EXPECT_EQ(page.sections.front().heading, "decode");
}

TEST(RoleStragglersJson, TellsTheStragglersOfEachRole) {
  const auto json = RoleStragglersJson(PrefillAndDecode());
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["role"], "decode");
  EXPECT_EQ(json[0]["stragglers"]["stragglers"].size(), 1u);
  EXPECT_EQ(json[1]["stragglers"]["stragglers"].size(), 0u);
}

}  // namespace
}  // namespace strobe::cli
