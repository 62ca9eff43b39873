#include "common/tls/live_identity.h"

#include <gtest/gtest.h>

#include "common/base/files.h"
#include "tests/fakes/no_free_files.h"

namespace strobe {
namespace {

TEST(LiveIdentity, IsReplacedInItsFilesToo) {
  LiveIdentity identity({{"old certificate", "key"}, "old roots"});
  const std::string path = identity.certificate_path();
  EXPECT_EQ(*ReadTextFile(path), "old certificate");
  ASSERT_TRUE(identity.Renew("new certificate", "new roots").ok());
  EXPECT_EQ(*ReadTextFile(path), "new certificate");
  EXPECT_EQ(*ReadTextFile(identity.key_path()), "key");
  EXPECT_EQ(identity.Get()->roots, "new roots");
  ASSERT_TRUE(identity.Replace({{"third", "third key"}, ""}).ok());
  EXPECT_EQ(*ReadTextFile(path), "third");
  EXPECT_EQ(*ReadTextFile(identity.key_path()), "third key");
}

// Regression: a renewal at a moment when no file could be opened ended the process.
TEST(LiveIdentity, IsKeptWhereNoFileCanBeOpenedAndRenewedLater) {
  LiveIdentity identity({{"old certificate", "key"}, "old roots"});
  {
    const NoFreeFiles none;
    EXPECT_FALSE(identity.Renew("new certificate", "new roots").ok());
    EXPECT_FALSE(identity.Replace({{"third", "third key"}, ""}).ok());
    EXPECT_FALSE(LiveIdentity::Create({{"certificate", "key"}, ""}).ok());
  }
  EXPECT_EQ(identity.Get()->own.certificate, "old certificate");
  EXPECT_EQ(identity.Get()->roots, "old roots");
  EXPECT_EQ(*ReadTextFile(identity.certificate_path()), "old certificate");
  EXPECT_EQ(*ReadTextFile(identity.key_path()), "key");
  EXPECT_TRUE(identity.Renew("new certificate", "new roots").ok());
  EXPECT_EQ(*ReadTextFile(identity.certificate_path()), "new certificate");
}

}  // namespace
}  // namespace strobe
