#include "sidecar/source/base/profile_answer.h"

#include <gmock/gmock.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "tensorflow/profiler_service.pb.h"

namespace strobe::source {
namespace {

// An answer as gRPC receives it, in slices of `size` bytes.
grpc::ByteBuffer Received(std::string_view bytes, std::size_t size) {
  std::vector<grpc::Slice> slices;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(size, bytes.size())))
    slices.emplace_back(std::string(bytes.substr(0, size)));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string ProfileAnswer(std::string_view xspace) {
  tensorflow::ProfileResponse response;
  response.add_tool_data()->set_name("overview");
  response.set_empty_trace(true);
  response.set_xspace(std::string(xspace));
  return response.SerializeAsString();
}

TEST(TakeXSpace, FindsTheTraceHoweverTheAnswerIsCutIntoSlices) {
  std::string trace(5000, 'x');
  for (std::size_t i = 0; i < trace.size(); ++i) trace[i] = static_cast<char>(i * 7);
  const std::string answer = ProfileAnswer(trace);
  for (const std::size_t size : {1, 2, 3, 64, 4096, 100'000}) {
    grpc::ByteBuffer received = Received(answer, size);
    const auto xspace = TakeXSpace(received);
    ASSERT_TRUE(xspace.ok()) << size << " " << xspace.status();
    EXPECT_EQ(*xspace, trace) << size;
    EXPECT_EQ(received.Length(), 0u) << "the answer is still in memory";
  }
}

TEST(TakeXSpace, AnEmptyTraceIsNotTheSameAsNone) {
  grpc::ByteBuffer with = Received(ProfileAnswer(""), 64);
  EXPECT_EQ(*TakeXSpace(with), "");
  tensorflow::ProfileResponse response;
  response.set_empty_trace(true);
  grpc::ByteBuffer without = Received(response.SerializeAsString(), 64);
  EXPECT_EQ(*TakeXSpace(without), std::nullopt);
  grpc::ByteBuffer nothing = Received("", 64), never;
  EXPECT_EQ(*TakeXSpace(nothing), std::nullopt);
  EXPECT_EQ(*TakeXSpace(never), std::nullopt);
}

TEST(TakeXSpace, AnAnswerThatIsCutIsRefusedOrHasTheWholeTrace) {
  const std::string trace(300, 't'), answer = ProfileAnswer(trace);
  for (std::size_t length = 0; length < answer.size(); ++length) {
    grpc::ByteBuffer received = Received(std::string_view(answer).substr(0, length), 16);
    const auto xspace = TakeXSpace(received);
    if (xspace.ok()) {
      EXPECT_EQ(*xspace, std::nullopt) << length;
    }
  }
}

TEST(TakeXSpace, ALengthBeyondTheAnswerReservesNoMemory) {
  const std::string tag(1, static_cast<char>(8 << 3 | 2));
  for (const std::string length : {"\xff\xff\xff\xff\x07", "\xff\xff\xff\xff\x0f", "\x02"}) {
    grpc::ByteBuffer received = Received(tag + length + "a", 64);
    EXPECT_EQ(TakeXSpace(received).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace strobe::source
