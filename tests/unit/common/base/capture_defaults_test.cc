#include "common/base/capture_defaults.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"
#include "common/base/text_file.h"

namespace strobe {
namespace {

TEST(CaptureDefaults, TheSchemaHasTheSameMemoryLimit) {
  const auto schema = ReadTextFile(STROBE_UNIT_DIR "/../../crds/profilerequests.yaml");
  ASSERT_TRUE(schema.ok()) << schema.status();
  EXPECT_THAT(*schema,
              testing::HasSubstr(StrCat("memoryPercent: {type: integer, minimum: 0, maximum: 100, "
                                        "default: ",
                                        kDefaultAbortMemoryPercent, ",")));
}

}  // namespace
}  // namespace strobe
