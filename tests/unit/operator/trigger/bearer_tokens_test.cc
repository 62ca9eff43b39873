#include "operator/trigger/bearer_tokens.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/base/strings.h"
#include "tests/fakes/no_free_files.h"

namespace strobe::trigger {
namespace {

using testing::HasSubstr;

constexpr char kFirst[] = "first-token-of-24-bytes.", kNext[] = "next-token-with-30-characters.";

class BearerTokensTest : public testing::Test {
 protected:
  BearerTokensTest() {
    std::string pattern = testing::TempDir() + "/tokens-XXXXXX";
    directory_ = mkdtemp(pattern.data());
  }
  ~BearerTokensTest() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(Path(name)) << text;
  }
  absl::StatusOr<std::unique_ptr<BearerTokens>> Read() {
    return BearerTokens::Read({Path("token"), Path("token-next")});
  }

  std::string directory_;
};

TEST_F(BearerTokensTest, AcceptsATokenAndNothingElse) {
  Write("token", std::string(kFirst) + "\n");
  const auto tokens = Read();
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  const std::string token = kFirst;
  EXPECT_TRUE((*tokens)->Accept("Bearer " + token));
  EXPECT_TRUE((*tokens)->Accept("bearer  " + token + " "));
  for (const std::string& odd :
       {std::string(), std::string("Bearer "), std::string("Bearer"), token, "Basic " + token,
        "Bearer " + token.substr(1), "Bearer " + token + "x", "Bearer " + token + " x",
        "Bearer " + token.substr(0, token.size() - 1), "Bearer" + token})
    EXPECT_FALSE((*tokens)->Accept(odd)) << odd;
}

TEST_F(BearerTokensTest, TwoTokensAtOnceReplaceEachOther) {
  Write("token", kFirst);
  const auto tokens = Read();
  ASSERT_TRUE(tokens.ok());
  const std::string first = StrCat("Bearer ", kFirst), next = StrCat("Bearer ", kNext);
  EXPECT_FALSE((*tokens)->Accept(next));
  Write("token-next", kNext);
  EXPECT_TRUE((*tokens)->ReadAgain().ok());
  EXPECT_TRUE((*tokens)->Accept(first));
  EXPECT_TRUE((*tokens)->Accept(next));
  std::filesystem::remove(Path("token"));
  EXPECT_TRUE((*tokens)->ReadAgain().ok());
  EXPECT_FALSE((*tokens)->Accept(first)) << "the file is gone, and its token with it";
  EXPECT_TRUE((*tokens)->Accept(next));
  std::filesystem::remove(Path("token-next"));
  EXPECT_TRUE((*tokens)->ReadAgain().ok());
  EXPECT_FALSE((*tokens)->Accept(next));
  EXPECT_FALSE((*tokens)->Accept("Bearer "));
}

TEST_F(BearerTokensTest, ATokenThatCannotBeUsedChangesNothing) {
  Write("token", kFirst);
  const auto tokens = Read();
  ASSERT_TRUE(tokens.ok());
  for (const char* odd :
       {"", "\n", "short", "a token with blanks in it", "umlaut-\xc3\xbc-1234567"}) {
    Write("token", odd);
    EXPECT_THAT(MessageOf((*tokens)->ReadAgain()), HasSubstr("/token holds a token"));
    EXPECT_TRUE((*tokens)->Accept(StrCat("Bearer ", kFirst)));
  }
}

TEST_F(BearerTokensTest, ATokenThatCannotBeReadNowStays) {
  Write("token", kFirst);
  const auto tokens = Read();
  ASSERT_TRUE(tokens.ok());
  {
    const NoFreeFiles none;
    EXPECT_THAT(MessageOf((*tokens)->ReadAgain()), HasSubstr("cannot read"));
  }
  EXPECT_TRUE((*tokens)->Accept(StrCat("Bearer ", kFirst)));
}

TEST_F(BearerTokensTest, WithoutATokenThereIsAnError) {
  EXPECT_THAT(MessageOf(Read().status()), HasSubstr("there is no bearer token in"));
  Write("token", "");
  EXPECT_THAT(MessageOf(Read().status()), HasSubstr("token of 0 bytes; it needs 16"));
  Write("token", "123456789012345");
  EXPECT_FALSE(Read().ok());
  Write("token", "1234567890123456");
  EXPECT_TRUE(Read().ok());
}

}  // namespace
}  // namespace strobe::trigger
