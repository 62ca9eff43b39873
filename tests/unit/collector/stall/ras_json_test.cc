#include "collector/stall/ras_json.h"

#include <gmock/gmock.h>

namespace strobe::stall {
namespace {

TEST(WithCommas, PutsOnlyWhatIsForgotten) {
  EXPECT_EQ(WithCommas("\"nvml_dev\": 1\n          \"status\": {"),
            "\"nvml_dev\": 1,\n          \"status\": {");
  EXPECT_EQ(WithCommas("\"nvml_dev\": -1\n\"status\": {\"nvml_dev\": 2\r\n \"status\""),
            "\"nvml_dev\": -1,\n\"status\": {\"nvml_dev\": 2,\r\n \"status\"");
  for (const char* whole : {"", "{}", "\"nvml_dev\": 1,\n\"status\": {",
                            "\"nvml_dev\": ", "\"nvml_dev\": 1\n\"other\": {", "\"nvml_dev\": 7"})
    EXPECT_EQ(WithCommas(whole), whole);
}

}  // namespace
}  // namespace strobe::stall
