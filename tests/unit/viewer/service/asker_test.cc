#include "viewer/service/asker.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"

namespace strobe::viewer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Headers = std::vector<std::pair<std::string, std::string>>;

constexpr char kUser[] = "X-Forwarded-User", kGroups[] = "X-Forwarded-Groups";

absl::StatusOr<Asker> Read(Headers headers, const IdentityHeaders& names = {}) {
  return ReadAsker(http::Request{.headers = std::move(headers)}, names);
}

TEST(ReadAsker, ReadsUserAndGroups) {
  const auto asker = Read({{kUser, " jane@example.com "}, {kGroups, "ml, ops,,ml , ops team"}});
  ASSERT_TRUE(asker.ok()) << asker.status();
  EXPECT_EQ(asker->user, "jane@example.com");
  EXPECT_THAT(asker->groups, ElementsAre("ml", "ops", "ops team"));
  EXPECT_THAT(Read({{kUser, "jane"}})->groups, IsEmpty());
  EXPECT_THAT(Read({{kUser, "jane"}, {kGroups, ""}})->groups, IsEmpty());
  EXPECT_EQ(Read({{kUser, "J\xc3\xbcrgen"}})->user, "J\xc3\xbcrgen");
}

TEST(ReadAsker, PutsPrefixesBeforeNames) {
  const auto asker =
      Read({{"User", "jane"}, {"Groups", "ml"}},
           {.user = "User", .groups = "Groups", .user_prefix = "oidc:", .groups_prefix = "team:"});
  EXPECT_EQ(asker->user, "oidc:jane");
  EXPECT_THAT(asker->groups, ElementsAre("team:ml"));
}

TEST(ReadAsker, WithoutAUserNobodyIsLoggedIn) {
  for (const Headers& headers :
       {Headers{}, Headers{{kUser, ""}}, Headers{{kUser, " \t"}}, Headers{{kGroups, "ml"}}})
    EXPECT_EQ(Read(headers).status().code(), absl::StatusCode::kUnauthenticated);
}

TEST(ReadAsker, RefusesWhatMayNameTwoUsers) {
  const Headers wrong[] = {{{kUser, "eve"}, {kUser, "jane"}},
                           {{kUser, ""}, {kUser, "jane"}},
                           {{kUser, "eve, jane"}},
                           {{kUser, "jane"}, {kGroups, "admins"}, {kGroups, "ml"}}};
  for (const Headers& headers : wrong)
    EXPECT_EQ(Read(headers).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReadAsker, RefusesBytesThatNoNameHas) {
  for (const std::string bad : {"ja\tne", "ja\x01ne", "ja\x7fne", "ja\xffne", "ja\xc3"}) {
    EXPECT_EQ(Read({{kUser, bad}}).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Read({{kUser, "jane"}, {kGroups, "ml," + bad}}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(ReadAsker, RefusesWhatIsTooLong) {
  std::string groups;
  for (std::size_t i = 0; i <= kMaxGroups; ++i) groups += StrCat(i, ",");
  ASSERT_LT(groups.size(), kMaxGroupsHeaderBytes);
  const Headers wrong[] = {
      {{kUser, std::string(kMaxUserBytes + 1, 'a')}},
      {{kUser, "jane"}, {kGroups, std::string(kMaxGroupBytes + 1, 'a')}},
      {{kUser, "jane"}, {kGroups, groups}},
      {{kUser, "jane"}, {kGroups, std::string(kMaxGroupsHeaderBytes + 1, ',')}}};
  for (const Headers& headers : wrong)
    EXPECT_EQ(Read(headers).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(Read({{kUser, std::string(kMaxUserBytes, 'a')}}).ok());
}

TEST(ReadAsker, NobodyGetsTheNamesThatKubernetesKeeps) {
  EXPECT_EQ(Read({{kUser, "system:admin"}}).status().code(), absl::StatusCode::kPermissionDenied);
  const auto asker = Read({{kUser, "eve"}, {kGroups, "system:masters,ml, system:nodes"}});
  EXPECT_THAT(asker->groups, ElementsAre("ml"));
}

}  // namespace
}  // namespace strobe::viewer
