#include "collector/trace/kineto/gunzip.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace strobe::kineto {
namespace {

std::string Compress(const std::string& text) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, text.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

struct Result {
  std::string text{};
  bool damaged = false;
};

Result Read(std::string_view file, std::size_t piece = 100) {
  const Gunzip::Source source = [&](std::span<char> room) -> absl::StatusOr<std::size_t> {
    const std::size_t size = std::min({room.size(), file.size(), piece});
    std::memcpy(room.data(), file.data(), size);
    file.remove_prefix(size);
    return size;
  };
  Gunzip gunzip(source);
  Result result;
  for (;;) {
    char room[333];
    const absl::StatusOr<std::size_t> bytes = gunzip.Read(room);
    EXPECT_TRUE(bytes.ok());
    if (!bytes.ok() || *bytes == 0) break;
    result.text.append(room, *bytes);
  }
  result.damaged = gunzip.damaged();
  return result;
}

std::string Sample() {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i * 7919) + ",";
  return text;
}

}  // namespace

TEST(Gunzip, PassesOnWhatIsNotCompressed) {
  for (const std::string& text : {std::string(), std::string("["), std::string("{}"), Sample()}) {
    for (const std::size_t piece : {1, 100, 100'000}) {
      const Result result = Read(text, piece);
      EXPECT_EQ(result.text, text);
      EXPECT_FALSE(result.damaged);
    }
  }
}

TEST(Gunzip, Decompresses) {
  for (const std::size_t piece : {1, 100, 100'000}) {
    const Result result = Read(Compress(Sample()), piece);
    EXPECT_EQ(result.text, Sample());
    EXPECT_FALSE(result.damaged);
  }
}

TEST(Gunzip, DecompressesSeveralFilesInOne) {
  const Result result = Read(Compress("one, ") + Compress("two"));
  EXPECT_EQ(result.text, "one, two");
  EXPECT_FALSE(result.damaged);
}

TEST(Gunzip, ZerosBehindTheFileArePadding) {
  for (const std::size_t piece : {1, 100, 100'000}) {
    const Result result =
        Read(Compress("one, ") + std::string(700, '\0') + Compress("two") + std::string(9000, '\0'),
             piece);
    EXPECT_EQ(result.text, "one, two");
    EXPECT_FALSE(result.damaged);
  }
  EXPECT_TRUE(Read(Compress("one") + std::string(10, '\0') + "garbage").damaged);
}

TEST(Gunzip, ReturnsWhatComesBeforeDamage) {
  const std::string whole = Compress(Sample());
  for (std::size_t size = 2; size < whole.size(); size += 97) {
    const Result result = Read(std::string_view(whole).substr(0, size));
    EXPECT_TRUE(result.damaged) << size;
    EXPECT_TRUE(Sample().starts_with(result.text)) << size;
  }
  std::string changed = whole;
  changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 0x55);
  EXPECT_TRUE(Read(changed).damaged);
}

TEST(Gunzip, PassesErrorsOn) {
  const Gunzip::Source source = [](std::span<char>) -> absl::StatusOr<std::size_t> {
    return absl::PermissionDeniedError("no");
  };
  Gunzip gunzip(source);
  char room[10];
  EXPECT_TRUE(absl::IsPermissionDenied(gunzip.Read(room).status()));
}

}  // namespace strobe::kineto
