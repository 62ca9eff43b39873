#include "viewer/api/spooled_answer.h"

#include <gmock/gmock.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>

#include "common/base/strings.h"

namespace strobe::viewer {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class SpooledAnswerTest : public testing::Test {
 protected:
  ~SpooledAnswerTest() override { std::filesystem::remove_all(scratch_.folder); }

  // Writes an answer of so many bytes; the status says at which it ended.
  absl::Status Write(SpooledAnswer& answer, std::uint64_t bytes) {
    const std::string piece(kMiB, 'x');
    for (; bytes > 0; bytes -= kMiB)
      if (absl::Status status = answer.Write(piece); !status.ok()) return status;
    return absl::OkStatus();
  }

  const Scratch scratch_{
      .folder = (std::filesystem::temp_directory_path() / StrCat("strobe-scratch-", getpid())),
      .shares = std::make_shared<fair::ByteShares>(
          fair::ByteShares::Limits{.all = 40 * kMiB, .each = 20 * kMiB})};
};

TEST_F(SpooledAnswerTest, AShortOneIsInMemoryAndALongOneInAFileWithoutAName) {
  SpooledAnswer brief(scratch_, "bob", nullptr), lengthy(scratch_, "bob", nullptr);
  http::Page page;
  ASSERT_TRUE(Write(brief, 2 * kMiB).ok());
  ASSERT_TRUE(brief.MoveInto(page).ok());
  EXPECT_EQ(page.body.size(), 2 * kMiB);
  EXPECT_EQ(page.source, nullptr);
  EXPECT_FALSE(std::filesystem::exists(scratch_.folder));

  std::string expected(5 * kMiB, 'x');
  ASSERT_TRUE(Write(lengthy, 5 * kMiB).ok());
  ASSERT_TRUE(lengthy.Write("the end").ok());
  expected += "the end";
  http::Page other;
  ASSERT_TRUE(lengthy.MoveInto(other).ok());
  ASSERT_NE(other.source, nullptr);
  std::string got(other.source->size(), 0);
  ASSERT_EQ(*other.source->Read(0, got), got.size());
  EXPECT_TRUE(got == expected);
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.folder));
  EXPECT_EQ(scratch_.shares->held(), 6 * kMiB);
  other.source.reset();
  EXPECT_EQ(scratch_.shares->held(), 0);
}

TEST_F(SpooledAnswerTest, IsCompressedPieceByPiece) {
  SpooledAnswer answer(scratch_, "bob", nullptr);
  answer.Compress();
  std::string text;
  for (int i = 0; text.size() < 12 * kMiB; ++i) text += StrCat(i * 7919 % 104'729, " ");
  for (std::size_t at = 0; at < text.size(); at += 100'000)
    ASSERT_TRUE(answer.Write(std::string_view(text).substr(at, 100'000)).ok());
  http::Page page;
  ASSERT_TRUE(answer.MoveInto(page).ok());
  EXPECT_THAT(page.headers, testing::Contains(testing::Pair("Content-Encoding", "gzip")));
  ASSERT_NE(page.source, nullptr);
  std::string packed(page.source->size(), 0);
  ASSERT_EQ(*page.source->Read(0, packed), packed.size());
  EXPECT_LT(packed.size(), text.size() * 3 / 4);
  z_stream stream{};
  ASSERT_EQ(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
  std::string got(text.size() + 1, 0);
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(got.data());
  stream.avail_out = static_cast<uInt>(got.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  got.resize(stream.total_out);
  inflateEnd(&stream);
  EXPECT_TRUE(got == text);
}

// Regression: downloads that were read slowly filled the node's disk, where neither the cache's
// bound nor du saw them.
TEST_F(SpooledAnswerTest, TheDiskThatOneAskerTakesIsBounded) {
  SpooledAnswer first(scratch_, "mallory", nullptr), second(scratch_, "mallory", nullptr);
  EXPECT_TRUE(Write(first, 15 * kMiB).ok());
  EXPECT_EQ(Write(second, 15 * kMiB).code(), absl::StatusCode::kUnavailable);
  EXPECT_LE(scratch_.shares->held(), 20 * kMiB);
  SpooledAnswer other(scratch_, "bob", nullptr);
  EXPECT_TRUE(Write(other, 15 * kMiB).ok());
}

TEST_F(SpooledAnswerTest, EndsWhenItsClientIsGone) {
  bool gone = false;
  SpooledAnswer answer(scratch_, "bob", [&] { return gone; });
  EXPECT_TRUE(Write(answer, kMiB).ok());
  gone = true;
  EXPECT_EQ(Write(answer, kMiB).code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace strobe::viewer
