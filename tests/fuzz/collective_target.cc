// Fuzz target for the file in which a program tells its collectives.
#include <stdlib.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "agent/wire/collective_file.h"
#include "agent/wire/ticks.h"
#include "collector/stall/evidence_files.h"
#include "collector/stall/judge.h"
#include "collector/trace/digest/compute_digest.h"
#include "collector/trace/xplane/space.h"
#include "sidecar/source/agent/recorded_collectives.h"
#include "sidecar/source/device/collective_plane.h"
#include "sidecar/stall/collective_evidence.h"
#include "tests/fuzz/targets.h"

namespace strobe::fuzz {
namespace {

constexpr std::uint32_t kFewCommunicators = 4, kFewRecords = 16;

std::string FreshFolder() {
  std::string pattern = std::filesystem::is_directory("/dev/shm") ? "/dev/shm/strobe-calls-XXXXXX"
                                                                  : "/tmp/strobe-calls-XXXXXX";
  return mkdtemp(pattern.data());
}

// The folder is removed at the end.
struct CallsFolder {
  const std::string path = FreshFolder();
  ~CallsFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

// A small file of a program that called on two communicators.
std::string GoodCalls(const std::string& path) {
  {
    wire::CollectiveFile made = wire::CollectiveFile::Create(path);
    if (!made) std::abort();
    made.header()->max_communicators = kFewCommunicators;
    made.header()->max_records = kFewRecords;
  }
  wire::CollectiveFile file = wire::CollectiveFile::Map(path);
  if (!file.Check()) std::abort();
  file.header()->communicators = 2;
  file.header()->made = 12;
  for (std::uint32_t i = 0; i < 2; ++i) {
    file.communicator(i)->id = 0xabc + i;
    file.communicator(i)->ranks = 2;
    file.communicator(i)->collectives = 6;
  }
  for (std::uint64_t number = 0; number < 12; ++number) {
    wire::CollectiveRecord& record = *file.record(number);
    const bool transfer = number % 4 == 3;
    const auto call = transfer ? wire::CollectiveCall::kSend : wire::CollectiveCall::kAllReduce;
    const wire::CallKey key{.communicator = static_cast<std::uint16_t>(number % 2),
                            .call = call,
                            .type = wire::ElementType::kFloat32,
                            .peer = transfer ? 1 : 0};
    record.begin = 1000 + 10 * number;
    record.launched = 1005 + 10 * number;
    record.ordinal = record.sequence = 1 + number / 2;
    record.count = 1024;
    record.key = std::bit_cast<std::uint64_t>(key);
    record.device_begin = 5000 + 10 * number;
    record.device_end = 5008 + 10 * number;
    record.end_seen_ns = 1020 + 10 * number;
    record.channels_begun = record.channels_ended = 1;
    record.stamp = 2 * number + 2;
  }
  std::string bytes(wire::kHeaderBytes + kFewCommunicators * sizeof(wire::CollectiveCommunicator) +
                        kFewRecords * sizeof(wire::CollectiveRecord),
                    '\0');
  std::ifstream(path, std::ios::binary)
      .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

void JudgeEvidence(const std::string& evidence) {
  if (evidence.empty()) return;
  stall::JobEvidence job;
  for (const char* name : {"0.a.nccl", "0.b.nccl", "1.a.nccl", "1.b.nccl"}) {
    if (!stall::AddEvidence(name, evidence, job).ok()) std::abort();
  }
  stall::JudgeStall(job);
}

}  // namespace

bool CollectiveCalls(std::string_view bytes) {
  static const CallsFolder folder;
  const std::string rings = folder.path + "/1-1.rings", path = wire::CollectivePath(rings);
  static const std::string good = GoodCalls(path);
  // The input is read in threes: a place of two bytes, and its new value. A place that begins with
  // 0xff also ends the file there.
  std::string calls = good;
  for (std::size_t i = 0; i + 2 < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
    const std::size_t at = (static_cast<std::size_t>(byte(i)) << 8 | byte(i + 1)) % calls.size();
    calls[at] = bytes[i + 2];
    if (byte(i) == 0xff) calls.resize(at + 1);
  }
  std::ofstream(path, std::ios::binary | std::ios::trunc) << calls;
  source::RecordedCollectives recorded(rings, /*holds_before=*/true);
  std::uint64_t budget = 1 << 16;
  recorded.RequestDeviceTimes(1);
  recorded.Drain(budget);
  recorded.Drain(budget);
  const source::GuardedCollectives opened = source::OpenCollectives(rings);
  // A program may truncate its file while it is read.
  if (!bytes.empty() && bytes[0] % 4 == 1) std::filesystem::resize_file(path, 4096);
  if (opened.file)
    JudgeEvidence(
        stall::CollectiveEvidence(opened.file, wire::MonotonicMoment(wire::BestTicks()), 0));
  recorded.Drain(budget);
  source::CollectivePlane plane(/*length_ps=*/1'000'000'000);
  plane.Add({.activity = recorded.activity()});
  const std::string trace = plane.Encode();
  const auto space = xplane::Space::Read(trace);
  if (!space.ok() || !digest::ComputeDigest(*space, "w").ok()) std::abort();
  return !recorded.activity().calls.empty();
}

}  // namespace strobe::fuzz
