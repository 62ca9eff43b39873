#include "agent/nccl/recorder.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <new>
#include <utility>

#include "agent/wire/ticks.h"

namespace strobe::nccl {
namespace {

using wire::CallKey;
using wire::CollectiveCall;
using wire::CollectiveCommunicator;
using wire::CollectiveFile;
using wire::CollectiveHeader;
using wire::CollectiveHow;
using wire::CollectiveRecord;

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kRelease = std::memory_order_release;

// "initial-exec" places it in static TLS, as in agent/recorder.
thread_local std::uint32_t own_thread __attribute__((tls_model("initial-exec"))) = 0;

std::uint32_t OwnThread() {
  if (__builtin_expect(own_thread == 0, 0))
    own_thread = static_cast<std::uint32_t>(syscall(SYS_gettid));
  return own_thread;
}

// The first letter, which tells algorithms apart ("RING", "TREE"), or the length of one of the
// protocols "LL" and "LL128".
std::uint8_t CodeOf(std::string_view word) {
  if (word.empty()) return 0;
  return word.front() == 'L' ? static_cast<std::uint8_t>(word.size())
                             : static_cast<std::uint8_t>(word.front());
}

// Relaxed minimum and maximum; 0 is no value.
void KeepLeast(std::atomic<std::uint64_t>& to, std::uint64_t value) {
  std::uint64_t before = to.load(kRelaxed);
  while ((before == 0 || value < before) && !to.compare_exchange_weak(before, value, kRelaxed)) {
  }
}
void KeepMost(std::atomic<std::uint64_t>& to, std::uint64_t value) {
  std::uint64_t before = to.load(kRelaxed);
  while (value > before && !to.compare_exchange_weak(before, value, kRelaxed)) {
  }
}

}  // namespace

bool Recorder::Open(const std::string& path) {
  CollectiveFile made = CollectiveFile::Create(path);
  if (!made) return false;
  // Never deleted, because the library's threads may record while the program ends.
  auto* const file = new (std::nothrow) CollectiveFile(std::move(made));
  if (file == nullptr) return false;
  for (auto& peer : peers_) peer.store(0, kRelaxed);
  file_.store(file, kRelease);
  return true;
}

void Recorder::Forget() {
  file_.store(nullptr, kRelease);
  own_thread = 0;  // The child's only thread has a number of its own.
}

CollectiveHeader* Recorder::header() const {
  const CollectiveFile* const file = file_.load(std::memory_order_acquire);
  return file == nullptr ? nullptr : file->header();
}

std::uint64_t Recorder::made() const {
  const CollectiveHeader* const to = header();
  return to == nullptr ? 0 : to->made.load(std::memory_order_acquire);
}

std::uint32_t Recorder::AddCommunicator(const CommunicatorFacts& facts) {
  CollectiveFile* const file = file_.load(std::memory_order_acquire);
  if (file == nullptr) return kNoCommunicator;
  CollectiveHeader& header = *file->header();
  std::uint32_t index = header.communicators.load(kRelaxed);
  // The entry is complete before the number moves over it; two threads that add at the same time
  // are kept apart by the caller's lock.
  if (index >= wire::kCollectiveCommunicators) return kNoCommunicator;
  CollectiveCommunicator& entry = *file->communicator(index);
  entry.id = facts.id;
  entry.rank = facts.rank;
  entry.ranks = facts.ranks;
  entry.nodes = facts.nodes;
  std::memset(entry.name, 0, sizeof entry.name);
  facts.name.copy(entry.name, sizeof entry.name);
  header.communicators.store(index + 1, kRelease);
  return index;
}

void Recorder::EndCommunicator(std::uint32_t communicator) {
  const CollectiveFile* const file = file_.load(std::memory_order_acquire);
  if (file != nullptr && communicator < wire::kCollectiveCommunicators)
    file->communicator(communicator)->ended.store(1, kRelease);
}

std::uint64_t Recorder::Begin(const CallFacts& facts) {
  const CollectiveFile& file = *file_.load(std::memory_order_acquire);
  CollectiveHeader& header = *file.header();
  const std::uint64_t now = wire::Ticks(header.tick_kind);
  const CallKey key{.communicator = static_cast<std::uint16_t>(facts.communicator),
                    .call = facts.call,
                    .type = facts.type,
                    .peer = facts.peer};
  const auto word = std::bit_cast<std::uint64_t>(key);
  std::uint64_t ordinal = 0;
  if (facts.communicator < wire::kCollectiveCommunicators) {
    CollectiveCommunicator& entry = *file.communicator(facts.communicator);
    if (wire::IsTransfer(facts.call)) {
      ordinal = entry.transfers.fetch_add(1, kRelaxed) + 1;
    } else {
      entry.newest_begin.store(now, kRelaxed);
      entry.newest_count.store(facts.count, kRelaxed);
      entry.newest_key.store(word, kRelaxed);
      ordinal = entry.collectives.fetch_add(1, kRelease) + 1;
    }
  } else {
    header.without_entry.fetch_add(1, kRelaxed);
  }
  header.calls[static_cast<std::size_t>(facts.call) % 16].fetch_add(1, kRelaxed);
  const std::uint64_t number = header.made.fetch_add(1, std::memory_order_acq_rel);
  CollectiveRecord& record = *file.record(number);
  record.stamp.store(2 * number + 1, kRelaxed);
  // Release, so that a reader that sees a new word also sees the new stamp.
  record.begin.store(now, kRelease);
  record.launched.store(0, kRelease);
  record.ordinal.store(ordinal, kRelease);
  record.count.store(facts.count, kRelease);
  record.key.store(word, kRelease);
  record.how.store(std::bit_cast<std::uint64_t>(CollectiveHow{
                       .channels = 0,
                       .algorithm = 0,
                       .protocol = 0,
                       .flags = static_cast<std::uint8_t>(facts.captured ? wire::kCaptured : 0),
                       .thread = OwnThread()}),
                   kRelease);
  record.sequence.store(0, kRelease);
  for (std::atomic<std::uint64_t>* word_of_device :
       {&record.device_begin, &record.device_end, &record.end_seen_ns, &record.channels_begun,
        &record.channels_ended})
    word_of_device->store(0, kRelease);
  record.stamp.store(2 * number + 2, kRelease);
  return number;
}

CollectiveRecord* Recorder::Find(std::uint64_t number) const {
  const CollectiveFile* const file = file_.load(std::memory_order_acquire);
  if (file == nullptr) return nullptr;
  CollectiveRecord* const record = file->record(number);
  return record->stamp.load(std::memory_order_acquire) == 2 * number + 2 ? record : nullptr;
}

CollectiveCall Recorder::CallOf(std::uint64_t number) const {
  const CollectiveRecord* const record = Find(number);
  if (record == nullptr) return CollectiveCall::kOther;
  return std::bit_cast<CallKey>(record->key.load(kRelaxed)).call;
}

std::uint64_t Recorder::CountTransfer(const CallKey& call) {
  constexpr int kTries = 16;
  const bool sends = call.call == CollectiveCall::kSend;
  // 20 bits of the peer are more than any job has.
  const std::uint64_t key = (std::uint64_t{1} << 31 | std::uint64_t{sends} << 30 |
                             (std::uint64_t{call.communicator} & 0x3ff) << 20 |
                             (static_cast<std::uint64_t>(call.peer) & 0xfffff));
  std::size_t at = key * 0x9e37'79b9'7f4a'7c15ull >> 51;
  for (int i = 0; i < kTries; ++i, ++at) {
    std::atomic<std::uint64_t>& entry = peers_[at % kPeers];
    std::uint64_t before = entry.load(kRelaxed);
    while (before == 0 || before >> 32 == key) {
      const std::uint64_t count = (before & 0xffff'ffff) + 1;
      if (entry.compare_exchange_weak(before, key << 32 | (count & 0xffff'ffff), kRelaxed))
        return count;
    }
  }
  return 0;
}

void Recorder::Launched(std::uint64_t number, const LaunchFacts& facts) {
  CollectiveRecord* const record = Find(number);
  if (record == nullptr) return;
  const CollectiveFile& file = *file_.load(std::memory_order_acquire);
  auto key = std::bit_cast<CallKey>(record->key.load(kRelaxed));
  auto how = std::bit_cast<CollectiveHow>(record->how.load(kRelaxed));
  how.channels = facts.channels;
  how.algorithm = CodeOf(facts.algorithm);
  how.protocol = CodeOf(facts.protocol);
  if (facts.peer >= 0) key.peer = facts.peer;
  const bool transfer = wire::IsTransfer(key.call);
  record->how.store(std::bit_cast<std::uint64_t>(how), kRelease);
  record->key.store(std::bit_cast<std::uint64_t>(key), kRelease);
  record->sequence.store(transfer ? CountTransfer(key) : facts.sequence, kRelease);
  record->launched.store(wire::Ticks(file.header()->tick_kind), kRelease);
  if (!transfer && key.communicator < wire::kCollectiveCommunicators)
    file.communicator(key.communicator)->launched.fetch_add(1, kRelaxed);
}

void Recorder::DeviceBegan(std::uint64_t number, std::uint64_t device_ns) {
  CollectiveRecord* const record = Find(number);
  if (record == nullptr) return;
  if (device_ns != 0) KeepLeast(record->device_begin, device_ns);
  record->channels_begun.fetch_add(1, kRelease);
}

void Recorder::DeviceEnded(std::uint64_t number, std::uint64_t device_ns) {
  CollectiveRecord* const record = Find(number);
  if (record == nullptr) return;
  KeepMost(record->device_end, device_ns);
  KeepMost(record->end_seen_ns, wire::MonotonicNs());
  record->channels_ended.fetch_add(1, kRelease);
}

}  // namespace strobe::nccl
