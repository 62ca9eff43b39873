#include "collector/store/upload.h"

#include <gmock/gmock.h>

#include <array>

#include "collector/store/retrying_store.h"
#include "common/base/hash.h"
#include "tests/fakes/memory_store.h"

namespace strobe::storage {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::string Pattern(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 4093);
  return bytes;
}

class UploadTest : public testing::Test {
 protected:
  absl::Status Run(UploadState resume = {}, bool save = false) {
    UploadOptions options{
        .sha256 = sha256_, .key_is_own = key_is_own_, .resume = std::move(resume)};
    if (save) {
      options.save = [this](const UploadState& state) { saved_ = state; };
    }
    options.progress = [this](std::uint64_t done, std::uint64_t all) {
      EXPECT_GT(done, told_);
      EXPECT_EQ(all, bytes_.size());
      told_ = done;
    };
    const std::array<std::string_view, 1> pieces = {bytes_};
    std::unique_ptr<ObjectStore> store = std::make_unique<MemoryStore>(bucket_);
    if (retries_) store = WithRetries(std::move(store), {}, nullptr);
    return Upload(*store, "k", MemoryBytes(pieces), options);
  }
  void SetBytes(std::size_t size) {
    bytes_ = Pattern(size);
    Sha256 hash;
    hash.Update(bytes_);
    sha256_ = hash.Hex();
  }
  // Makes the n-th call of `call` fail.
  static std::function<absl::Status(const std::string&)> FailOnce(const std::string& call, int n) {
    auto left = std::make_shared<std::atomic<int>>(n);
    return [call, left](const std::string& seen) {
      return seen == call && --*left == 0 ? absl::UnavailableError("cut") : absl::OkStatus();
    };
  }

  MemoryBucket bucket_;
  std::string bytes_, sha256_;
  UploadState saved_;
  std::uint64_t told_ = 0;
  bool retries_ = false, key_is_own_ = false;
};

TEST(ShapeOf, BoundsMemoryAndParts) {
  EXPECT_EQ(ShapeOf(0).part_bytes, 0u);
  EXPECT_EQ(ShapeOf(8 * kMiB).part_bytes, 0u);
  for (const std::uint64_t size : {9 * kMiB, 2048 * kMiB, 100 * 1024 * kMiB, 5 * kMiB * kMiB}) {
    const UploadShape shape = ShapeOf(size);
    EXPECT_GE(shape.part_bytes, 8 * kMiB);
    EXPECT_LE(shape.parts, 10'000u) << size;
    EXPECT_GE(shape.part_bytes * shape.parts, size);
    EXPECT_LT(shape.part_bytes * (shape.parts - 1), size);
    if (shape.concurrency > 1) {
      EXPECT_LE(shape.part_bytes * static_cast<std::uint64_t>(shape.concurrency), 32 * kMiB);
    }
  }
}

TEST_F(UploadTest, SmallInOneRequestLargeInParts) {
  SetBytes(1000);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(bucket_.Count("put"), 1u);
  bucket_.objects.clear();
  told_ = 0;
  SetBytes(20 * kMiB + 7);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(bucket_.Count("part"), 3u);
  EXPECT_EQ(bucket_.Bytes("k"), bytes_);
  EXPECT_EQ(told_, bytes_.size());
}

TEST_F(UploadTest, NeverOverwritesOtherBytesButAcceptsItsOwn) {
  for (const std::size_t size : {std::size_t{1000}, std::size_t{20 * kMiB}}) {
    for (const bool keeps : {true, false}) {
      bucket_.keeps_sha256 = keeps;
      bucket_.objects.clear();
      SetBytes(size);
      told_ = 0;
      ASSERT_TRUE(Run().ok());
      EXPECT_TRUE(Run().ok()) << "the very same bytes are there";
      bytes_[size / 2] ^= 1;
      Sha256 hash;
      hash.Update(bytes_);
      sha256_ = hash.Hex();
      const absl::Status status = Run();
      EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
      EXPECT_NE(bucket_.Bytes("k"), bytes_);
    }
  }
}

TEST_F(UploadTest, AFailureLeavesNothingBehindUnlessItCanBeResumed) {
  SetBytes(40 * kMiB);
  bucket_.before = FailOnce("part", 3);
  EXPECT_FALSE(Run().ok());
  EXPECT_EQ(bucket_.OpenUploads(), 0u) << "aborted";
  EXPECT_EQ(bucket_.Bytes("k"), "");

  bucket_.before = FailOnce("part", 3);
  told_ = 0;
  EXPECT_FALSE(Run({}, true).ok());
  EXPECT_EQ(bucket_.OpenUploads(), 1u);
  bucket_.before = nullptr;
  const std::size_t parts_before = bucket_.Count("part");
  told_ = 0;
  ASSERT_TRUE(Run(saved_, true).ok());
  EXPECT_LT(bucket_.Count("part") - parts_before, 5u) << "what was there is not sent again";
  EXPECT_EQ(bucket_.Bytes("k"), bytes_);
}

TEST_F(UploadTest, BeginsAnewWhenTheStoreForgotTheUpload) {
  SetBytes(20 * kMiB);
  bucket_.before = FailOnce("commit", 1);
  EXPECT_FALSE(Run({}, true).ok());
  bucket_.before = nullptr;
  bucket_.uploads.clear();
  told_ = 0;
  ASSERT_TRUE(Run(saved_, true).ok());
  EXPECT_EQ(bucket_.Bytes("k"), bytes_);
}

TEST_F(UploadTest, ACommitWhoseAnswerGotLostIsRecognised) {
  SetBytes(20 * kMiB);
  bucket_.after = FailOnce("commit", 1);
  EXPECT_FALSE(Run({}, true).ok());
  EXPECT_EQ(bucket_.Bytes("k"), bytes_) << "it had worked";
  bucket_.after = nullptr;
  EXPECT_TRUE(Run(saved_, true).ok());
}

// Azure keeps no checksum of an upload in parts, and a commit that is retried finds no blocks
// there, which is NotFound.
TEST_F(UploadTest, ACommitThatIsRetriedAfterItsAnswerGotLostIsRecognised) {
  retries_ = true;
  for (const bool keeps : {true, false}) {
    for (const bool save : {true, false}) {
      bucket_.keeps_sha256 = keeps;
      bucket_.objects.clear();
      SetBytes(20 * kMiB);
      told_ = 0;
      bucket_.after = FailOnce("commit", 1);
      const std::size_t begun = bucket_.Count("begin");
      const absl::Status status = Run({}, save);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(bucket_.Bytes("k"), bytes_);
      EXPECT_EQ(bucket_.Count("begin") - begun, 1u) << "nothing is sent twice";
    }
  }
}

TEST_F(UploadTest, APutWhoseAnswerGotLostIsRecognised) {
  SetBytes(1000);
  bucket_.after = FailOnce("put", 1);
  EXPECT_FALSE(Run().ok());
  bucket_.after = nullptr;
  EXPECT_TRUE(Run().ok());
}

// S3 ends an upload if another write of the object conflicts with its commit.
TEST_F(UploadTest, BeginsAnewOnceWhenTheStoreEndedItsUpload) {
  SetBytes(20 * kMiB);
  int conflicts = 1;
  bucket_.before = [&](const std::string& call) {
    if (call == "begin") told_ = 0;
    if (call == "commit" && conflicts-- > 0) {
      MutexLock lock(&bucket_.mutex);
      bucket_.uploads.clear();
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(bucket_.Bytes("k"), bytes_);
  EXPECT_EQ(bucket_.Count("begin"), 2u);

  bucket_.objects.clear();
  conflicts = 2;
  const absl::Status status = Run();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_EQ(bucket_.Count("begin"), 4u);
  EXPECT_EQ(bucket_.OpenUploads(), 0u);
}

TEST_F(UploadTest, LooksAgainBeforeTheCommitBecauseNotEveryStoreRefusesIt) {
  SetBytes(20 * kMiB);
  bucket_.before = [this](const std::string& call) {
    if (call != "part") return absl::OkStatus();
    MutexLock lock(&bucket_.mutex);
    bucket_.objects["k"] = {"another writer's", ""};
    return absl::OkStatus();
  };
  const absl::Status status = Run({}, true);
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_EQ(bucket_.Count("commit"), 0u);
  EXPECT_EQ(bucket_.Bytes("k"), "another writer's");
  EXPECT_EQ(bucket_.OpenUploads(), 0u) << "it would never be resumed";
}

TEST_F(UploadTest, AnIdentityThatMayOnlyWriteUploadsInPartsToo) {
  SetBytes(20 * kMiB);
  bucket_.before = [](const std::string& call) {
    return call == "stat" ? absl::PermissionDeniedError("not yours") : absl::OkStatus();
  };
  const absl::Status status = Run();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(bucket_.Bytes("k"), bytes_);
}

// Regression: it was told as denied.
TEST_F(UploadTest, WhatMayNotBeReadIsNotToldAsDenied) {
  for (const std::string call : {"put", "commit"}) {
    bucket_.objects.clear();
    SetBytes(call == "put" ? 1000 : 20 * kMiB);
    bucket_.before = [this](const std::string& what) {
      if (what == "begin") told_ = 0;
      return what == "stat" || what == "read" ? absl::PermissionDeniedError("not yours")
                                              : absl::OkStatus();
    };
    bucket_.after = FailOnce(call, 1);
    EXPECT_TRUE(absl::IsUnavailable(Run({}, call == "commit")));
    bucket_.after = nullptr;
    const absl::Status unknown = Run();
    EXPECT_TRUE(absl::IsAlreadyExists(unknown)) << unknown;
    EXPECT_THAT(std::string(unknown.message()), testing::HasSubstr("may not read what it is"));
    key_is_own_ = true;
    const absl::Status own = Run();
    EXPECT_TRUE(own.ok()) << own;
    key_is_own_ = false;
    EXPECT_EQ(bucket_.Bytes("k"), bytes_);
  }
  // Nothing says that there is an object.
  bucket_.objects.clear();
  key_is_own_ = true;
  bucket_.before = [this](const std::string& what) {
    if (what == "begin") told_ = 0;
    if (what == "commit") return absl::NotFoundError("no such bucket");
    return what == "stat" ? absl::PermissionDeniedError("not yours") : absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsNotFound(Run()));
}

}  // namespace
}  // namespace strobe::storage
