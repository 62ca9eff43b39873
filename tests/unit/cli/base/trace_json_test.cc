#include "cli/base/trace_json.h"

#include <gmock/gmock.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "common/base/strings.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::cli {
namespace {

using testing::HasSubstr;

// A trace in Chrome's format with so many events.
std::string TraceJson(int events) {
  std::string text = R"({"traceEvents": [)";
  for (int i = 0; i < events; ++i)
    text += StrCat(i > 0 ? "," : "", R"({"ph":"X","name":"work","pid":1,"tid":1,"ts":)", i * 10,
                   R"(,"dur":5})");
  return text + "]}";
}

std::string Gzipped(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()), 0);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

class JsonConversionsTest : public testing::Test {
 protected:
  const std::shared_ptr<SimulatedTime> clock_ = std::make_shared<SimulatedTime>();
  const std::string trace_ = TraceJson(10'000);
  const std::uint64_t size_ = ReadTraceJson("a.trace.json", trace_)->bytes().size();

  std::shared_ptr<JsonConversions> Make(std::uint64_t run_bytes, std::uint64_t all_bytes) {
    return std::make_shared<JsonConversions>(
        JsonConversions::Limits{.run_bytes = run_bytes, .all_bytes = all_bytes}, clock_);
  }
};

TEST_F(JsonConversionsTest, ATraceThatFitsIsConvertedAsEver) {
  JsonConversions::Run run(Make(1 << 30, 1 << 30), nullptr);
  const absl::StatusOr<convert::OpenTrace> trace = run.Convert("a.trace.json", trace_);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->worker, "a");
  EXPECT_TRUE(trace->bytes() == ReadTraceJson("a.trace.json", trace_)->bytes());
}

TEST_F(JsonConversionsTest, TheTracesOfARunAreBounded) {
  JsonConversions::Run run(Make(2 * size_ + trace_.size() / 2 - 1, 1 << 30), nullptr);
  const auto first = run.Convert("a.trace.json", trace_);
  const auto second = run.Convert("b.trace.json", trace_);
  EXPECT_TRUE(first.ok() && second.ok());
  const auto third = run.Convert("c.trace.json", trace_);
  EXPECT_EQ(third.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(third.status().message(), HasSubstr("strobe cp"));
}

TEST_F(JsonConversionsTest, WhatIsSmallOnlyWhileItIsCompressedIsRefusedBeforeItTakesMemory) {
  std::string bomb = R"({"traceEvents": [{"ph":"X","name":"work","pid":1,"tid":1,"ts":0,"dur":5}])";
  bomb += std::string(std::size_t{64} << 20, ' ') + "}";
  const std::string packed = Gzipped(bomb);
  ASSERT_LT(packed.size(), std::size_t{1} << 20);
  JsonConversions::Run run(Make(1 << 20, 1 << 30), nullptr);
  EXPECT_EQ(run.Convert("a.trace.json.gz", packed).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(JsonConversionsTest, AllThatAreOpenAreBoundedAndTheEndOfOneMakesRoom) {
  const auto all = Make(1 << 30, 2 * size_ + trace_.size() / 2 - 1);
  JsonConversions::Run first(all, nullptr), second(all, nullptr);
  auto kept = first.Convert("a.trace.json", trace_);
  const auto other = first.Convert("b.trace.json", trace_);
  EXPECT_TRUE(kept.ok() && other.ok());
  EXPECT_EQ(second.Convert("c.trace.json", trace_).status().code(),
            absl::StatusCode::kResourceExhausted);
  kept = absl::NotFoundError("closed");
  EXPECT_TRUE(second.Convert("c.trace.json", trace_).ok());
}

TEST_F(JsonConversionsTest, TheTimeOfARunIsBounded) {
  JsonConversions::Run run(Make(1 << 30, 1 << 30), nullptr);
  EXPECT_TRUE(run.Convert("a.trace.json", trace_).ok());
  clock_->Advance(std::chrono::minutes(4));
  EXPECT_THAT(run.Convert("b.trace.json", trace_).status().message(), HasSubstr("too long"));
}

TEST_F(JsonConversionsTest, TheEndOfTheServerEndsThem) {
  Cancellation stop;
  JsonConversions::Run run(Make(1 << 30, 1 << 30), &stop);
  stop.Cancel();
  EXPECT_EQ(run.Convert("a.trace.json", trace_).status().code(), absl::StatusCode::kCancelled);
}

namespace fs = std::filesystem;

class KeptConversionTest : public testing::Test {
 protected:
  KeptConversionTest() { fs::create_directories(folder_); }
  ~KeptConversionTest() override { fs::remove_all(folder_); }

  static void Write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  std::string Opened() const {
    const absl::StatusOr<convert::OpenTrace> trace = OpenTraceJson(file_, cache_);
    EXPECT_TRUE(trace.ok()) << trace.status();
    return trace.ok() ? std::string(trace->bytes()) : "";
  }
  std::vector<fs::path> Kept() const {
    std::error_code none;
    const fs::directory_iterator all(cache_, none);
    return none ? std::vector<fs::path>() : std::vector<fs::path>(begin(all), end(all));
  }

  const fs::path folder_ =
      fs::temp_directory_path() / ("strobe-kept-" + std::to_string(::getpid()));
  const std::string file_ = (folder_ / "rank0.trace.json").native();
  const std::string cache_ = (folder_ / "cache").native();
};

TEST_F(KeptConversionTest, IsOpenedTheNextTimeAndMadeAnewForAnotherFile) {
  Write(file_, TraceJson(3));
  const std::string first = Opened();
  EXPECT_EQ(first, ReadTraceJson(file_, TraceJson(3))->bytes());
  ASSERT_EQ(Kept().size(), 1u);
  Write(Kept().front(), "what is kept");
  EXPECT_EQ(Opened(), "what is kept");
  Write(file_, TraceJson(4));
  EXPECT_EQ(Opened(), ReadTraceJson(file_, TraceJson(4))->bytes());
  EXPECT_EQ(Kept().size(), 2u);
}

TEST_F(KeptConversionTest, WhatWasLeftOutIsToldEachTime) {
  Write(file_, R"({"traceEvents": [{"ph":"X","name":"cut","pid":1,"tid":1,"ts":"x","dur":5}]})");
  for (int i = 0; i < 2; ++i) {
    testing::internal::CaptureStderr();
    const absl::StatusOr<convert::OpenTrace> trace = OpenTraceJson(file_, cache_);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(file_)) << i;
  }
  EXPECT_TRUE(Kept().empty());
}

TEST(CutTraceJson, IsToldWithWhatIsShownAndWhatToDo) {
  const std::string whole = TraceJson(1000);
  for (const bool compressed : {false, true}) {
    const std::string name = compressed ? "a.json.gz" : "a.json";
    const std::string file = compressed ? Gzipped(whole) : whole;
    testing::internal::CaptureStderr();
    EXPECT_TRUE(ReadTraceJson(name, std::string_view(file).substr(0, file.size() / 2)).ok());
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_THAT(told, testing::MatchesRegex(
                          name + ": the file is cut: its end is missing, and the [0-9]+ events "
                                 "before it were read and are shown; copy the file again or, if it "
                                 "was cut while it was recorded, record again\n"));
    const absl::Status refused = ReadTraceJson(name, std::string_view(file).substr(0, 12)).status();
    EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
    EXPECT_THAT(MessageOf(refused), HasSubstr("nothing can be shown; copy the file again"));
  }
}

}  // namespace
}  // namespace strobe::cli
