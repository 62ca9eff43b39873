#include "cli/report/report_html.h"

#include <gmock/gmock.h>

namespace strobe::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

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
