#include "cli/report/report_document.h"

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

constexpr const char* kHostile = "</td><script>alert(\"1\")</script><img src=x onerror='a&b'>";

TEST(RenderHtml, EscapesAllText) {
  const std::string html =
      RenderHtml({.title = kHostile,
                  .headline = kHostile,
                  .sections = {{.heading = kHostile,
                                .lines = {kHostile},
                                .columns = {Column::kName, Column::kNumber},
                                .rows = {{"NAME", "N"}, {kHostile, kHostile}},
                                .notes = {kHostile}},
                               {.heading = kHostile, .lines = {kHostile}, .list = true}}});
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html,
              HasSubstr("<td class=\"name\"><bdi>&lt;/td&gt;&lt;script&gt;alert(&quot;1&quot;)"
                        "&lt;/script&gt;&lt;img src=x onerror=&#39;a&amp;b&#39;&gt;</bdi>"));
}

TEST(RenderHtml, ReplacesWhatHtmlCannotContainAndCutsWhatIsLong) {
  const std::string html = RenderHtml(
      {.title = std::string("a\0b\x1b\xff", 5),
       .sections = {{.columns = {Column::kName}, .rows = {{"NAME"}, {std::string(5000, 'x')}}}}});
  EXPECT_THAT(html, HasSubstr("<title>a b \xef\xbf\xbd</title>"));
  EXPECT_THAT(html, HasSubstr("xxx...</bdi>"));
  EXPECT_LT(html.size(), 10'000u);
}

TEST(RenderHtml, HasAPolicyThatForbidsAllButItsOwnStyle) {
  const std::string html = RenderHtml({});
  EXPECT_THAT(html, HasSubstr("content=\"default-src 'none'; style-src 'sha256-"));
  EXPECT_THAT(html, Not(HasSubstr("unsafe-inline")));
  EXPECT_THAT(html, Not(HasSubstr("style=")));
}

}  // namespace
}  // namespace strobe::cli
