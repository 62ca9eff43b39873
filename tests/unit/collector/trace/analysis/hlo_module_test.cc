#include "collector/trace/analysis/hlo_module.h"

#include <gmock/gmock.h>

#include <random>

#include "common/base/strings.h"
#include "tests/support/made_hlo.h"

namespace strobe::analysis {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::string EncodedField(std::uint32_t number, std::string_view bytes) {
  std::string field;
  wire::AppendBytesField(number, bytes, field);
  return field;
}

// p0 and p1 are added by a fusion; its result is multiplied by itself.
std::string StepProto() {
  std::string origin;
  wire::AppendBytesField(2, "model/add", origin);
  wire::AppendBytesField(3, "train.py", origin);
  wire::AppendVarintField(4, 8, origin);
  std::string second;
  wire::AppendVarintField(9, 1, second);
  const std::string fused = MadeComputation("fused", 1, 12,
                                            {{"a", "parameter", 10},
                                             {"b", "parameter", 11, {}, {}, second},
                                             {"sum", "add", 12, {10, 11}}});
  // Newer versions of XLA write the computation's id into the upper half of ids.
  const std::int64_t high = std::int64_t{2} << 32;
  const std::string entry = MadeComputation("main", 2, high + 4,
                                            {{"p0", "parameter", high + 1},
                                             {"p1", "parameter", high + 2, {}, {}, second},
                                             {"fusion.3",
                                              "fusion",
                                              high + 3,
                                              {1, 2},
                                              {1},
                                              EncodedField(7, origin) + EncodedField(11, "kLoop")},
                                             {"mul", "multiply", high + 4, {high + 3, high + 3}}});
  return MadeProto("jit_step", 2, {fused, entry});
}

TEST(HloModule, ReadsInstructionsWithTheirOperandsAndUsers) {
  const std::string bytes = StepProto();
  const HloModule module = *HloModule::Read(bytes);
  EXPECT_EQ(module.name, "jit_step");
  ASSERT_THAT(module.computations, SizeIs(2));
  const HloComputation& entry = module.computations[1];
  EXPECT_EQ(entry.missing, 0u);
  EXPECT_EQ(entry.root, 3u);
  EXPECT_THAT(entry.instructions[2].operands, ElementsAre(0, 1));
  EXPECT_THAT(entry.instructions[3].operands, ElementsAre(2, 2));
  EXPECT_THAT(entry.Users(),
              ElementsAre(ElementsAre(2), ElementsAre(2), ElementsAre(3), testing::IsEmpty()));
  EXPECT_EQ(module.Computation(entry.instructions[2].calls.at(0))->name, "fused");
  EXPECT_EQ(module.Computation(99), nullptr);
  EXPECT_EQ(module.Root()->instruction, 3u);
  EXPECT_EQ(module.Find("%sum")->computation, 0u);
  EXPECT_THAT(module.Find("none").status().message(),
              HasSubstr("jit_step has no instruction none"));
}

TEST(HloModule, WritesInstructionsAsHloDoes) {
  const std::string bytes = StepProto();
  const HloModule module = *HloModule::Read(bytes);
  EXPECT_EQ(HloText(module, *module.Find("fusion.3"), 1000),
            "%fusion.3 = f32[2,3]{1,0} fusion(%p0, %p1), kind=kLoop, calls=%fused");
  EXPECT_EQ(HloText(module, *module.Find("mul"), 1000),
            "ROOT %mul = f32[2,3]{1,0} multiply(%fusion.3, %fusion.3)");
  EXPECT_EQ(HloText(module, *module.Find("p1"), 1000), "%p1 = f32[2,3]{1,0} parameter(1)");
  const HloOrigin origin = OriginOf(module.computations[1].instructions[2]);
  EXPECT_EQ(origin.op, "model/add");
  EXPECT_EQ(origin.source, "train.py:8");
  EXPECT_EQ(OriginOf(module.computations[1].instructions[0]).source, "");
}

TEST(HloModule, ShapesOfTuplesAreBounded) {
  std::string parts;
  for (int i = 0; i < 5000; ++i) wire::AppendBytesField(4, MadeShape(), parts);
  HloInstruction instruction;
  const std::string bytes = EncodedField(3, parts);
  instruction.bytes = bytes;
  EXPECT_THAT(HloShape(instruction), testing::StartsWith("(f32[2,3]{1,0}, f32[2,3]{1,0}"));
  EXPECT_LT(HloShape(instruction).size(), 1000u);
  std::string deep = MadeShape();
  for (int i = 0; i < 2000; ++i) deep = EncodedField(4, deep);
  const std::string nested = EncodedField(3, deep);
  instruction.bytes = nested;
  EXPECT_LT(HloShape(instruction).size(), 1000u) << "no deeper than the stack";
}

TEST(HloModule, BadBytesAreAnError) {
  EXPECT_TRUE(absl::IsDataLoss(HloModule::Read("").status())) << "no instructions";
  EXPECT_TRUE(absl::IsDataLoss(HloModule::Read("\xff\xff\xff").status()));
  const std::string cut = EncodedField(36, "\x80");
  EXPECT_TRUE(absl::IsDataLoss(
      HloModule::Read(
          MadeProto("m", 1, {MadeComputation("c", 1, 1, {{"i", "add", 1, {}, {}, cut}})}))
          .status()));
  EXPECT_TRUE(absl::IsDataLoss(
      HloModule::Read(
          MadeProto("m", 1,
                    {MadeComputation(
                        "c", 1, 1,
                        {{"i", "add", 1, {}, {}, EncodedField(36, std::string(12, '\xff'))}})}))
          .status()));
}

TEST(HloModule, EveryCutAndDamagedByteIsSurvived) {
  const std::string whole = StepProto();
  std::mt19937 random(1);
  const auto use = [](const std::string& bytes) {
    const absl::StatusOr<HloModule> module = HloModule::Read(bytes);
    if (!module.ok()) return;
    for (std::uint32_t c = 0; c < module->computations.size(); ++c) {
      module->computations[c].Users();
      for (std::uint32_t i = 0; i < module->computations[c].instructions.size(); ++i) {
        HloText(*module, {c, i}, 100);
        OriginOf(module->computations[c].instructions[i]);
      }
    }
  };
  for (std::size_t size = 0; size < whole.size(); ++size) use(whole.substr(0, size));
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = whole;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    damaged[random() % damaged.size()] = static_cast<char>(random());
    use(damaged);
  }
}

// Regression: 2 MB of operands took a minute to look up.
TEST(HloModule, IdsThatAreChosenToCollideAreRead) {
  // std::unordered_map has as many buckets.
  constexpr std::int64_t kInstructions = 84'000, kBuckets = 85'229;
  std::vector<MadeInstruction> instructions(kInstructions);
  for (std::int64_t i = 0; i < kInstructions; ++i)
    instructions[static_cast<std::size_t>(i)].id = static_cast<std::uint32_t>(i * kBuckets);
  instructions[0].operands.assign(1'000'000, static_cast<std::uint32_t>(kInstructions * kBuckets));
  const std::string bytes = MadeProto("m", 1, {MadeComputation("c", 1, 0, instructions)});
  EXPECT_EQ(HloModule::Read(bytes)->computations[0].missing, 1'000'000u);
}

// Regression: for each call, all computations were searched.
TEST(HloModule, CallsOfUnknownComputationsAreLeftOut) {
  constexpr std::size_t kMany = 500'000;
  std::vector<std::string> computations(kMany);
  computations.push_back(
      MadeComputation("c", 1, 1, {{"i", "call", 1, {}, std::vector<std::int64_t>(kMany, 7)}}));
  const std::string bytes = MadeProto("m", 1, computations);
  const HloModule module = *HloModule::Read(bytes);
  EXPECT_EQ(HloText(module, *module.Root(), 1000), "ROOT %i = f32[2,3]{1,0} call()");
}

TEST(FindHloProto, TheLowestOfSeveralProgramsStandsForTheModule) {
  std::string plane;
  for (const std::int64_t program : {9, 4, 6}) {
    std::string value, kind, entry;
    wire::AppendVarintField(1, 3, value);
    wire::AppendBytesField(6, StrCat("proto ", program), value);
    wire::AppendBytesField(2, StrCat("jit_step(", program, ")"), kind);
    wire::AppendBytesField(5, value, kind);
    wire::AppendVarintField(1, static_cast<std::uint64_t>(program), entry);
    wire::AppendBytesField(2, kind, entry);
    wire::AppendBytesField(4, entry, plane);
  }
  // The fields of a plane may be in several pieces. This one has the name and that of the stat.
  const std::string rest = MadeMetadataPlane("other", 1, "other proto");
  wire::Reader reader(rest);
  ASSERT_TRUE(reader.Next());
  plane += reader.bytes();
  const std::string bytes = EncodedField(1, plane);
  const xplane::Space space = *xplane::Space::Read(bytes);
  EXPECT_EQ(*FindHloProto(space, "jit_step", std::nullopt), "proto 4");
  EXPECT_EQ(*FindHloProto(space, "jit_step", 6), "proto 6");
}

TEST(HloModule, MissingOperandsAreCounted) {
  const std::string bytes =
      MadeProto("m", 1, {MadeComputation("c", 1, 77, {{"i", "add", 1, {5, 1, 6}}})});
  const HloModule module = *HloModule::Read(bytes);
  EXPECT_EQ(module.computations[0].missing, 2u);
  EXPECT_THAT(module.computations[0].instructions[0].operands, ElementsAre(0)) << "of itself";
  EXPECT_EQ(module.computations[0].root, 0u) << "an unknown root is the first instruction";
  EXPECT_TRUE(absl::IsNotFound(
      HloModule::Read(MadeProto("m", 9, {MadeComputation("c", 1, 1, {{"i", "add", 1}})}))
          ->Root()
          .status()));
}

TEST(HloModule, TooManyInstructionsAreRefused) {
  std::string computation;
  // A field with an empty instruction is two bytes.
  for (std::size_t i = 0; i <= HloModule::kMaxInstructions; ++i) computation += {'\x12', '\0'};
  EXPECT_TRUE(absl::IsOutOfRange(HloModule::Read(MadeProto("m", 1, {computation})).status()));
}

TEST(FindHloProto, FindsAModuleByProgramOrByName) {
  const std::string bytes = MadeMetadataPlane("jit_step(7)", 7, "proto");
  const xplane::Space space = *xplane::Space::Read(bytes);
  EXPECT_EQ(*FindHloProto(space, "jit_step(7)", std::nullopt), "proto");
  EXPECT_EQ(*FindHloProto(space, "jit_step", 7), "proto");
  EXPECT_EQ(*FindHloProto(space, "jit_step", std::nullopt), "proto");
  EXPECT_TRUE(absl::IsNotFound(FindHloProto(space, "jit_step(8)", std::nullopt).status()))
      << "another program of that name has another graph";
  EXPECT_THAT(FindHloProto(space, "jit_other", std::nullopt).status().message(),
              HasSubstr("does not hold the HLO of jit_other"));
  EXPECT_TRUE(absl::IsNotFound(FindHloProto({}, "jit_step", 7).status()));
  const std::string underscore = MadeMetadataPlane("jit_step(7)", 7, "proto", "hlo_proto");
  EXPECT_EQ(*FindHloProto(*xplane::Space::Read(underscore), "jit_step", 7), "proto");
  const std::string none = MadeMetadataPlane("jit_step(7)", 7, "proto", "something else");
  EXPECT_TRUE(absl::IsNotFound(FindHloProto(*xplane::Space::Read(none), "jit_step", 7).status()));
}

}  // namespace
}  // namespace strobe::analysis
