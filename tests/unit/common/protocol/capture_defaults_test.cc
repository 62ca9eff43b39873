#include "common/protocol/capture_defaults.h"

#include <gmock/gmock.h>

#include "common/base/files.h"
#include "common/base/strings.h"
#include "tests/fakes/unit_dir.h"

namespace strobe {
namespace {

TEST(CaptureDefaults, TheSchemaHasTheSameMemoryLimit) {
  const auto schema = ReadTextFile(UnitDir() + "/../../helm/strobe/crds/profilerequests.yaml");
  ASSERT_TRUE(schema.ok()) << schema.status();
  EXPECT_THAT(*schema, testing::ContainsRegex(StrCat("memoryPercent:\n[^%]*\n +default: ",
                                                     kDefaultAbortMemoryPercent, "\n")));
}

}  // namespace
}  // namespace strobe
