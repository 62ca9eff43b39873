#include "common/tls/identity_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace strobe {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;

class IdentityFilesTest : public testing::Test {
 protected:
  IdentityFilesTest() : directory_(mkdtemp(name_.data())) { Write(first_); }
  ~IdentityFilesTest() override { fs::remove_all(directory_); }

  void Write(const KeyPair& pair) {
    std::ofstream(directory_ + "/tls.crt") << pair.certificate;
    std::ofstream(directory_ + "/tls.key") << pair.key;
  }

  std::string name_ = "/tmp/strobe-identity-XXXXXX";
  const std::string directory_;
  const WallTime now_ = SystemClock().WallNow();
  const KeyPair first_ = *NewAuthority("first", ValidFor(hours(1), now_));
  const KeyPair second_ = *NewAuthority("second", ValidFor(hours(1), now_));
};

TEST_F(IdentityFilesTest, WhatIsHalfWrittenIsLeftUntilItIsWhole) {
  const auto files = IdentityFiles::Read({directory_ + "/tls.crt", directory_ + "/tls.key", ""});
  ASSERT_TRUE(files.ok()) << files.status();
  const auto used = [&] { return (*files)->identity()->Get()->own.certificate; };
  EXPECT_EQ(used(), first_.certificate);
  for (const std::size_t bytes : {std::size_t{0}, second_.certificate.size() / 2}) {
    Write({second_.certificate.substr(0, bytes), second_.key});
    (*files)->ReadAgain();
    EXPECT_EQ(used(), first_.certificate) << bytes;
  }
  fs::remove(directory_ + "/tls.key");
  (*files)->ReadAgain();
  EXPECT_EQ(used(), first_.certificate);
  Write(second_);
  (*files)->ReadAgain();
  EXPECT_EQ(used(), second_.certificate);
}

// Regression: a certificate whose key was not written yet was taken.
TEST_F(IdentityFilesTest, AKeyOfAnotherCertificateIsNotTaken) {
  const auto files = IdentityFiles::Read({directory_ + "/tls.crt", directory_ + "/tls.key", ""});
  ASSERT_TRUE(files.ok()) << files.status();
  for (const std::string& key : {first_.key, second_.key.substr(0, second_.key.size() / 2)}) {
    Write({second_.certificate, key});
    (*files)->ReadAgain();
    EXPECT_EQ((*files)->identity()->Get()->own.certificate, first_.certificate);
  }
}

}  // namespace
}  // namespace strobe
