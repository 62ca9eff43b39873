#include "operator/objects/viewer_link.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"

namespace strobe::objects {
namespace {

using testing::HasSubstr;

TEST(ViewerLink, FillsInThePlaceholders) {
  EXPECT_EQ(ViewerLink("https://x/?run={run}", "gs://b/logs/plugins/profile/r_2", "ml", "look"),
            "https://x/?run=r_2");
  EXPECT_EQ(ViewerLink("https://x/{namespace}/{name}?u={runUrl}", "s3://b/r", "ml", "look"),
            "https://x/ml/look?u=s3%3A%2F%2Fb%2Fr");
  EXPECT_EQ(ViewerLink("https://x/{run}", "file:///a/{name}&b=1", "ml", "look"),
            "https://x/%7Bname%7D%26b%3D1")
      << "a run's name is no template, and cannot add to the query";
  EXPECT_EQ(ViewerLink("", "gs://b/r", "ml", "look"), "");
  EXPECT_EQ(ViewerLink("https://x/{run}", "", "ml", "look"), "");
}

TEST(CheckViewerUrl, NamesWhatIsWrong) {
  EXPECT_TRUE(CheckViewerUrl("").ok());
  EXPECT_TRUE(CheckViewerUrl("http://x/{run}{runUrl}{namespace}{name}").ok());
  EXPECT_THAT(MessageOf(CheckViewerUrl("javascript:alert(1)")), HasSubstr("https://"));
  EXPECT_THAT(MessageOf(CheckViewerUrl("https://x/{job}")), HasSubstr("{namespace}"));
  EXPECT_THAT(MessageOf(CheckViewerUrl("https://x/{run")), HasSubstr("placeholders"));
  EXPECT_FALSE(CheckViewerUrl("https://x/" + std::string(2000, 'a')).ok());
}

}  // namespace
}  // namespace strobe::objects
