#include "collector/trace/digest/process_groups.h"

#include <gmock/gmock.h>

#include <string>

#include "common/base/strings.h"

namespace strobe::digest {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// As PyTorch 2.15 writes it for rank 5 of init_device_mesh("cpu", (2, 4), ("pp", "dp")).
constexpr char kMesh[] = R"({"backend": "gloo", "rank": 5, "world_size": 8, "pg_count": 3,
  "pg_config": [
    {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cpu:gloo", "pg_size": 8,
     "ranks": [0, 1, 2, 3, 4, 5, 6, 7]},
    {"pg_name": "2", "pg_desc": "mesh_pp", "backend_config": "cpu:gloo", "pg_size": 2,
     "ranks": [1, 5]},
    {"pg_name": "4", "pg_desc": "undefined", "backend_config": "cpu:gloo", "pg_size": 4,
     "ranks": [4, 5, 6, 7]}]})";

TEST(ProcessGroups, ReadsWhatPyTorchTells) {
  const auto groups = ProcessGroups(kMesh);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].name, "0 default_pg");
  EXPECT_EQ(groups[0].size, 8u);
  EXPECT_EQ(groups[1].name, "2 mesh_pp");
  EXPECT_THAT(groups[1].ranks, ElementsAre(1, 5));
  EXPECT_EQ(groups[2].name, "4");
}

TEST(ProcessGroups, SurvivesWhatIsNoneOfIt) {
  for (const char* text : {"", "[]", "{}", R"({"pg_config": {}})",
                           R"({"pg_config": [1, null, "x"]})", R"({"pg_config": [)"})
    EXPECT_THAT(ProcessGroups(text), IsEmpty()) << text;
  const auto odd = ProcessGroups(
      R"({"pg_config": [{"pg_name": 7, "pg_size": -1, "ranks": [0, "x"]}, {"ranks": [3, 4294967296]},
          {"pg_name": "a", "ranks": [[1]]}, {"pg_desc": "tp", "ranks": [2]}]})");
  ASSERT_EQ(odd.size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_THAT(odd[i].ranks, IsEmpty());
  EXPECT_EQ(odd[3].name, "tp");
  EXPECT_EQ(odd[3].size, 1u);
  std::string many = R"({"pg_config": [{})";
  for (int i = 0; i < 3000; ++i) many += ", {}";
  EXPECT_EQ(ProcessGroups(many + "]}").size(), 1024u);
}

TEST(CommunicatorName, LeavesOutWhatIsNotTold) {
  EXPECT_EQ(CommunicatorName("1", "mesh_tp"), "1 mesh_tp");
  EXPECT_EQ(CommunicatorName("1", "undefined"), "1");
  EXPECT_EQ(CommunicatorName("", "mesh_tp"), "mesh_tp");
  EXPECT_EQ(CommunicatorName("{{0,1}}", ""), "{{0,1}}");
  EXPECT_EQ(CommunicatorName(std::string(5000, 'x'), "").size(), 256u);
}

}  // namespace
}  // namespace strobe::digest
