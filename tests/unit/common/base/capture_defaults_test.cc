#include "common/base/capture_defaults.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"
#include "common/base/text_file.h"

namespace strobe {
namespace {

TEST(CaptureDefaults, TheSchemaHasTheSameMemoryLimit) {
  const auto schema = ReadTextFile(STROBE_UNIT_DIR "/../../helm/strobe/crds/profilerequests.yaml");
  ASSERT_TRUE(schema.ok()) << schema.status();
  EXPECT_THAT(*schema, testing::ContainsRegex(StrCat("memoryPercent:\n[^%]*\n +default: ",
                                                     kDefaultAbortMemoryPercent, "\n")));
}

}  // namespace
}  // namespace strobe
