#include "collector/trace/digest/encode.h"

#include <gmock/gmock.h>

#include <random>

#include "common/base/strings.h"
#include "strobe/v1/digest.pb.h"

namespace strobe::digest {
namespace {

using testing::HasSubstr;

// A digest with something in every field.
Digest Full() {
  Digest digest{.worker = "worker-3",
                .rank = 3,
                .world_size = 8,
                .host = "node-1",
                .zero_ns = 1'790'000'000'000'000'000,
                .clock_offset_ns = -1234,
                .clock_error_ns = 0,
                .begin_ns = -5,
                .end_ns = 1'000'000'000,
                .events = 99};
  digest.knows = {true, false, true, false, true, true};
  digest.time = {100, 50, 40, 30, 20, 10, 10};
  digest.host_time = {9, 8, 7, 6};
  digest.names = {"train", "all-reduce.1", "gemm", "\xc3\xa9"};
  for (std::int64_t i = 0; i < 5; ++i) {
    digest.steps.push_back({.loop = 0,
                            .number = 100 - i,
                            .begin_ns = i * 1000 - 7,
                            .end_ns = i * 1000 + 993,
                            .followed = i < 4,
                            .annotation_end_ns = i * 1000 + 900,
                            .time = {1000, 500, 300, 200, 100, 50, 250},
                            .host = {10, 5, i, 2},
                            .batch = {.prefill_requests = i,
                                      .prefill_tokens = 100 * i,
                                      .decode_requests = 1,
                                      .decode_tokens = 2,
                                      .running_before = i - 1}});
  }
  digest.devices = {{.name = "/device:GPU:0",
                     .first_ns = -3,
                     .last_ns = 1000,
                     .time = digest.time,
                     .coarse = true,
                     .flops = 1,
                     .bytes_accessed = 2,
                     .peak_flops = 3,
                     .peak_bytes = 4,
                     .peak_memory_bytes = 0,
                     .memory_bytes = std::uint64_t{1} << 63},
                    {.name = "/device:GPU:1"}};
  digest.communicators = {{.name = "0", .size = 8, .ranks = {0, 7, 3, 4'000'000'000}}, {}};
  digest.groups = {{.name = "0", .size = 8, .ranks = {0, 1, 7}}, {.name = "3 mesh_pp", .size = 2}};
  digest.collectives = {{.communicator = 0,
                         .name = 1,
                         .ordinal = 0,
                         .device = 1,
                         .begin_ns = -10,
                         .end_ns = 10,
                         .bytes = 1 << 20,
                         .sequence = 0,
                         .kind = CollectiveKind::kAllReduce},
                        {.communicator = 1, .name = 1, .ordinal = 7, .device = kNoDevice}};
  digest.ops = {{.name = 2,
                 .kind = WorkKind::kCompute,
                 .count = 10,
                 .total_ns = 1000,
                 .self_ns = 900,
                 .p50_ns = 90,
                 .p99_ns = 150,
                 .flops = 5,
                 .bytes_accessed = 6},
                {.name = 3, .kind = WorkKind::kScope, .count = 1}};
  digest.cuts = {1, 2, 3, 4};
  return digest;
}

// A digest that is far too large, with `steps` of steps and so on.
Digest Large(std::size_t steps, std::size_t collectives, std::size_t ops) {
  Digest digest{.worker = "w"};
  digest.names = {"train", "all-reduce"};
  digest.communicators.resize(1);
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < steps; ++i) {
    const auto begin = static_cast<std::int64_t>(i * 1'000'000'000 + random() % 1'000'000);
    digest.steps.push_back({.number = static_cast<std::int64_t>(i),
                            .begin_ns = begin,
                            .end_ns = begin + 999'000'000,
                            .time = {1'000'000, 500'000, 1, 2, 3, 4, 500'000}});
  }
  for (std::size_t i = 0; i < collectives; ++i) {
    const auto begin = static_cast<std::int64_t>(i * 1'000'000 + random() % 100'000);
    digest.collectives.push_back({.name = 1,
                                  .ordinal = static_cast<std::uint32_t>(i),
                                  .device = kNoDevice,
                                  .begin_ns = begin,
                                  .end_ns = begin + 50'000});
  }
  for (std::size_t i = 0; i < ops; ++i) {
    digest.ops.push_back({.name = static_cast<std::uint32_t>(digest.names.size()),
                          .count = 1,
                          .self_ns = static_cast<std::int64_t>(ops - i)});
    digest.names.push_back(StrCat(std::string(200, 'k'), i));
  }
  return digest;
}

TEST(EncodeDigest, EverythingComesBack) {
  const std::string bytes = EncodeDigest(Full());
  const absl::StatusOr<Digest> again = DecodeDigest(bytes);
  ASSERT_TRUE(again.ok()) << again.status();
  // Names get new numbers, in the order in which they are used.
  Digest expected = Full();
  expected.names = {"train", "all-reduce.1", "gemm", "\xc3\xa9"};
  EXPECT_EQ(*again, expected);
  EXPECT_EQ(EncodeDigest(*again), bytes);
  EXPECT_EQ(*DecodeDigest(EncodeDigest(Digest{})), Digest{});
}

TEST(EncodeDigest, ProtobufReadsAndWritesTheSame) {
  const std::string bytes = EncodeDigest(Full());
  v1::Digest message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  EXPECT_EQ(message.format(), 1u);
  EXPECT_EQ(message.worker(), "worker-3");
  EXPECT_EQ(message.clock_offset_ns(), -1234);
  EXPECT_TRUE(message.has_clock_error_ns());
  EXPECT_EQ(message.begin_ns(), -5);
  EXPECT_EQ(message.time().exposed_communication_ns(), 30);
  EXPECT_EQ(message.host_time().host_bound_ns(), 6);
  EXPECT_EQ(message.steps().begin_ns(0), -7);
  EXPECT_EQ(message.steps().begin_ns(1), 1000);
  EXPECT_EQ(message.steps().length_ns(4), 1000u);
  EXPECT_EQ(message.steps().annotation_end_ns(2), -93);
  EXPECT_EQ(message.steps().idle_ns(2), 250u);
  EXPECT_EQ(message.devices(0).memory_bytes(), std::uint64_t{1} << 63);
  EXPECT_TRUE(message.devices(0).has_peak_memory_bytes());
  EXPECT_EQ(message.collectives().device(0), 2u);
  EXPECT_EQ(message.collectives().sequence(0), 1u);
  EXPECT_EQ(message.names(message.ops().name(0)), "gemm");
  EXPECT_EQ(message.cuts().devices(), 4u);
  EXPECT_EQ(message.groups(1).name(), "3 mesh_pp");
  EXPECT_TRUE(message.GetReflection()->GetUnknownFields(message).empty());
  const absl::StatusOr<Digest> again = DecodeDigest(message.SerializeAsString());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, Full());
}

TEST(EncodeDigest, CutsTheLargestListAndCounts) {
  for (const auto& [steps, collectives, ops] :
       {std::tuple(100, 100, 5000), std::tuple(100, 60'000, 100), std::tuple(16'000, 10, 10),
        std::tuple(16'000, 60'000, 5000)}) {
    const auto large = Large(static_cast<std::size_t>(steps), static_cast<std::size_t>(collectives),
                             static_cast<std::size_t>(ops));
    const std::string bytes = EncodeDigest(large);
    EXPECT_LE(bytes.size(), kMaxDigestBytes);
    EXPECT_GT(bytes.size(), kMaxDigestBytes / 2);
    const absl::StatusOr<Digest> digest = DecodeDigest(bytes);
    ASSERT_TRUE(digest.ok()) << digest.status();
    EXPECT_EQ(digest->steps.size() + digest->cuts.steps, large.steps.size());
    EXPECT_EQ(digest->collectives.size() + digest->cuts.collectives, large.collectives.size());
    EXPECT_EQ(digest->ops.size() + digest->cuts.ops, large.ops.size());
    EXPECT_EQ(digest->names.size(), digest->ops.size() + 2) << "only names that are used";
    EXPECT_TRUE(digest->steps.size() >= 100u);
    EXPECT_EQ(digest->steps.back(), large.steps[digest->steps.size() - 1]);
    EXPECT_EQ(digest->ops.front().self_ns, ops) << "what takes most time is kept";
  }
}

TEST(EncodeDigest, KeepsSixtyFourDevices) {
  Digest digest = Full();
  digest.devices.resize(70);
  digest.collectives[0].device = 69;
  digest.cuts = {};
  const Digest again = *DecodeDigest(EncodeDigest(digest));
  EXPECT_EQ(again.devices.size(), 64u);
  EXPECT_EQ(again.cuts.devices, 6u);
  EXPECT_EQ(again.cuts.collectives, 1u);
}

// A reader that is older than a field leaves it out, and a digest of an older writer lacks it.
TEST(DecodeDigest, FieldsThatAreNotKnownAreLeftOut) {
  v1::Digest message;
  ASSERT_TRUE(message.ParseFromString(EncodeDigest(Full())));
  message.clear_groups();
  const absl::StatusOr<Digest> older = DecodeDigest(message.SerializeAsString());
  ASSERT_TRUE(older.ok()) << older.status();
  Digest expected = Full();
  expected.groups.clear();
  EXPECT_EQ(*older, expected);
  // Field 999, a text.
  const absl::StatusOr<Digest> newer =
      DecodeDigest(EncodeDigest(Full()) + std::string("\xba\x3e\x01x", 4));
  ASSERT_TRUE(newer.ok()) << newer.status();
  EXPECT_EQ(*newer, Full());
}

TEST(EncodeDigest, KeepsThirtyTwoGroups) {
  Digest digest{.worker = "w"};
  digest.groups.resize(500);
  for (Communicator& group : digest.groups) {
    group.name = std::string(1000, 'g');
    group.ranks.resize(5000, 3);
  }
  const std::string bytes = EncodeDigest(digest);
  EXPECT_LT(bytes.size(), 32u << 10);
  EXPECT_EQ(DecodeDigest(bytes)->groups.size(), 32u);
}

std::string WhyNot(const v1::Digest& message) {
  const absl::StatusOr<Digest> digest = DecodeDigest(message.SerializeAsString());
  EXPECT_EQ(digest.status().code(), absl::StatusCode::kInvalidArgument);
  return MessageOf(digest.status());
}

TEST(DecodeDigest, RefusesWhatIsNotWhole) {
  v1::Digest message;
  EXPECT_THAT(WhyNot(message), HasSubstr("no format"));
  message.set_format(2);
  EXPECT_THAT(WhyNot(message), HasSubstr("unknown format"));
  message.set_format(1);
  EXPECT_TRUE(DecodeDigest(message.SerializeAsString()).ok());
  message.mutable_steps()->add_loop(0);
  EXPECT_THAT(WhyNot(message), HasSubstr("a step without a name"));
  message.add_names("train");
  EXPECT_TRUE(DecodeDigest(message.SerializeAsString()).ok());
  message.mutable_steps()->add_begin_ns(1);
  message.mutable_steps()->add_begin_ns(2);
  EXPECT_THAT(WhyNot(message), HasSubstr("unequal length"));
  message.clear_steps();
  message.mutable_collectives()->add_communicator(0);
  EXPECT_THAT(WhyNot(message), HasSubstr("an unknown collective"));
  message.clear_collectives();
  message.mutable_ops()->add_name(0);
  message.mutable_ops()->add_kind(200);
  EXPECT_THAT(WhyNot(message), HasSubstr("an unknown operation"));
  message.mutable_ops()->set_kind(0, 0);
  message.mutable_ops()->add_total_ns(~std::uint64_t{0});
  EXPECT_THAT(WhyNot(message), HasSubstr("a negative duration"));
  message.clear_ops();
  message.set_worker(std::string(kMaxDigestBytes, 'x'));
  EXPECT_THAT(WhyNot(message), HasSubstr("too long"));
}

TEST(DecodeDigest, MakesTextsValid) {
  std::string bytes = EncodeDigest(Full());
  bytes[bytes.find("gemm")] = '\xff';
  const absl::StatusOr<Digest> digest = DecodeDigest(bytes);
  ASSERT_TRUE(digest.ok());
  EXPECT_EQ(digest->names[2],
            "\xef\xbf\xbd"
            "emm");
}

TEST(DecodeDigest, DamagedBytesAreRefusedOrReadButNeverCrash) {
  const std::string bytes = EncodeDigest(Full());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    (void)DecodeDigest(std::string_view(bytes).substr(0, size));
  std::mt19937 random(5);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = bytes;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    const absl::StatusOr<Digest> digest = DecodeDigest(damaged);
    if (!digest.ok()) {
      ++refused;
      EXPECT_EQ(digest.status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace strobe::digest
