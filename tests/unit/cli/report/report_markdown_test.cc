#include "cli/report/report_markdown.h"

#include <gmock/gmock.h>

namespace strobe::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(RenderMarkdown, WritesTablesWithNamesAsCode) {
  EXPECT_EQ(
      RenderMarkdown({.title = "run",
                      .headline = "no straggler",
                      .sections = {{.heading = "Operations",
                                    .lines = {"of all workers"},
                                    .columns = {Column::kNumber, Column::kName},
                                    .rows = {{"SELF", "OPERATION"}, {"1ms", "gemm_4"}},
                                    .notes = {"2 more"}},
                                   {.heading = "Not known", .lines = {"a", "b"}, .list = true},
                                   {.heading = "Only a picture", .picture = "<svg/>"}}}),
      "# run\n\n**no straggler**\n\n## Operations\n\nof all workers\n\n"
      "| SELF | OPERATION |\n| ---: | --- |\n| 1ms | `gemm_4` |\n\n2 more\n\n"
      "## Not known\n\n- a\n- b\n");
}

TEST(RenderMarkdown, NamesCannotLeaveTheirCode) {
  const std::string text =
      RenderMarkdown({.sections = {{.columns = {Column::kName, Column::kName},
                                    .rows = {{"A", "B"}, {"a`|<b>\n# c", "  "}}}}});
  EXPECT_THAT(text, HasSubstr("| `a'\u00a6<b> # c` |  |\n"));
}

TEST(RenderMarkdown, TextCannotBecomeMarkup) {
  const std::string text = RenderMarkdown({.headline = "w*1*_[x](y)<b>|`@me http://a www.b \\"});
  for (const char* markup : {"*1*", "[x", "<b>", "`", "@me", "://", "www.", "|", "\\"})
    EXPECT_THAT(text, Not(HasSubstr(markup))) << markup;
  EXPECT_THAT(text, HasSubstr("w&#42;1&#42;&#95;&#91;x&#93;(y)&#60;b&#62;"));
}

}  // namespace
}  // namespace strobe::cli
