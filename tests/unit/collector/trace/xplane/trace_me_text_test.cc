#include "collector/trace/xplane/trace_me_text.h"

#include <gmock/gmock.h>

namespace strobe::xplane {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(ParseTraceMe, ReadsWhatXlaWrites) {
  const TraceMeText parsed = ParseTraceMe("train#_r=1,step_num=7#");
  EXPECT_EQ(parsed.name, "train");
  EXPECT_THAT(parsed.args, ElementsAre(Pair("_r", "1"), Pair("step_num", "7")));
}

TEST(ParseTraceMe, NamesWithoutMetadataStayWhole) {
  for (const std::string_view text : {"plain", "a#b", "", "a=b,c=d"}) {
    EXPECT_EQ(ParseTraceMe(text).name, text);
    EXPECT_THAT(ParseTraceMe(text).args, IsEmpty());
  }
  EXPECT_EQ(ParseTraceMe("a#").name, "a");
}

TEST(ParseTraceMe, SplitsOutsideOfQuotesAndBracketsOnly) {
  EXPECT_THAT(ParseTraceMe("n#a=[1,2],b='x,y',c=\"p,q\",d={e=(1,2),f}, g = h #").args,
              ElementsAre(Pair("a", "[1,2]"), Pair("b", "'x,y'"), Pair("c", "\"p,q\""),
                          Pair("d", "{e=(1,2),f}"), Pair("g", "h")));
}

TEST(ParseTraceMe, DropsWhatIsNoPair) {
  EXPECT_THAT(ParseTraceMe("n#=1,a=,,b,c=d=e,]x=1,y=2#").args,
              ElementsAre(Pair("c", "d=e"), Pair("]x", "1"), Pair("y", "2")));
  EXPECT_THAT(ParseTraceMe("n#a=1#b=2#").args, ElementsAre(Pair("a", "1")));
}

}  // namespace
}  // namespace strobe::xplane
