#include "collector/trace/digest/encode.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "collector/trace/digest/columns.h"
#include "collector/trace/xplane/varint.h"
#include "collector/trace/xplane/wire.h"
#include "common/text/safe_text.h"

namespace strobe::digest {
namespace {

using namespace digest;

constexpr std::size_t kMaxDevices = 64;
// All ranks of all communicators; further ones have only their size.
constexpr std::size_t kMaxRanksBytes = 16 << 10;
constexpr std::size_t kMaxGroups = 32;

std::uint64_t Coded(Coding coding, std::int64_t value, std::int64_t& before) {
  if (coding == Coding::kDelta) {
    const std::uint64_t delta =
        static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(before);
    before = value;
    return wire::ZigZag(static_cast<std::int64_t>(delta));
  }
  return coding == Coding::kSigned ? wire::ZigZag(value) : static_cast<std::uint64_t>(value);
}

// The rows as columns. A column of zeros is left out.
template <typename Row, std::size_t kColumns>
std::string EncodeRows(std::span<const Row> rows,
                       const std::array<Column<Row>, kColumns>& columns) {
  std::string message, packed;
  for (const Column<Row>& column : columns) {
    packed.clear();
    bool any = false;
    std::int64_t before = 0;
    for (const Row& row : rows) {
      const std::uint64_t value = Coded(column.coding, column.get(row), before);
      any = any || value != 0;
      wire::AppendVarint(value, packed);
    }
    // One column always tells the number of rows.
    if (any || (&column == &columns.front() && !rows.empty()))
      wire::AppendBytesField(column.field, packed, message);
  }
  return message;
}

template <typename Message, std::size_t kFields>
std::string EncodeFields(const Message& message,
                         const std::array<Column<Message>, kFields>& fields) {
  std::string bytes;
  for (const Column<Message>& field : fields) {
    std::int64_t before = 0;
    const std::uint64_t value = Coded(field.coding, field.get(message), before);
    if (value != 0) wire::AppendVarintField(field.field, value, bytes);
  }
  return bytes;
}

void AppendPart(std::uint32_t field, std::string_view message, std::string& to) {
  if (!message.empty()) wire::AppendBytesField(field, message, to);
}

std::string EncodeDevice(const Device& device) {
  std::string bytes;
  AppendPart(1, CutUtf8(device.name, 256), bytes);
  bytes += EncodeFields(device, kDeviceFields);
  AppendPart(4, EncodeFields(device.time, kBreakdownFields), bytes);
  if (device.peak_memory_bytes) wire::AppendVarintField(10, *device.peak_memory_bytes, bytes);
  if (device.memory_bytes) wire::AppendVarintField(11, *device.memory_bytes, bytes);
  return bytes;
}

std::string EncodeCommunicator(const Communicator& communicator, std::size_t& ranks_bytes) {
  std::string bytes, ranks;
  AppendPart(1, CutUtf8(communicator.name, 256), bytes);
  if (communicator.size != 0) wire::AppendVarintField(2, communicator.size, bytes);
  std::int64_t before = 0;
  for (const std::uint32_t rank : communicator.ranks)
    wire::AppendVarint(Coded(Coding::kDelta, rank, before), ranks);
  ranks_bytes += ranks.size();
  if (ranks_bytes <= kMaxRanksBytes) AppendPart(3, ranks, bytes);
  return bytes;
}

// Gives new numbers to what is used, in the order of first use.
class Renumbering {
 public:
  std::uint32_t operator()(std::uint32_t old) {
    const auto [entry, fresh] = numbers_.emplace(old, static_cast<std::uint32_t>(order_.size()));
    if (fresh) order_.push_back(old);
    return entry->second;
  }
  const std::vector<std::uint32_t>& order() const { return order_; }

 private:
  std::unordered_map<std::uint32_t, std::uint32_t> numbers_{};
  std::vector<std::uint32_t> order_{};
};

// How much of each list is encoded, and how many bytes it takes together with its names.
struct List {
  std::size_t kept = 0;
  std::size_t bytes = 0;
};
struct Lists {
  List steps{}, collectives{}, ops{};
};

std::string EncodeHead(const Digest& digest) {
  std::string bytes;
  wire::AppendVarintField(1, 1, bytes);
  AppendPart(2, CutUtf8(digest.worker, 256), bytes);
  if (digest.rank) wire::AppendVarintField(3, *digest.rank, bytes);
  if (digest.world_size) wire::AppendVarintField(4, *digest.world_size, bytes);
  AppendPart(5, CutUtf8(digest.host, 256), bytes);
  wire::AppendVarintField(6, static_cast<std::uint64_t>(digest.zero_ns), bytes);
  wire::AppendVarintField(7, wire::ZigZag(digest.clock_offset_ns), bytes);
  if (digest.clock_error_ns)
    wire::AppendVarintField(8, static_cast<std::uint64_t>(*digest.clock_error_ns), bytes);
  wire::AppendVarintField(9, wire::ZigZag(digest.begin_ns), bytes);
  wire::AppendVarintField(10, wire::ZigZag(digest.end_ns), bytes);
  wire::AppendVarintField(11, digest.events, bytes);
  AppendPart(12, EncodeFields(digest.knows, kKnowsFields), bytes);
  AppendPart(13, EncodeFields(digest.time, kBreakdownFields), bytes);
  AppendPart(14, EncodeFields(digest.host_time, kHostTimeFields), bytes);
  const std::size_t devices = std::min(digest.devices.size(), kMaxDevices);
  for (std::size_t i = 0; i < devices; ++i)
    wire::AppendBytesField(17, EncodeDevice(digest.devices[i]), bytes);
  // Groups get half of the room, because they cannot be cut later.
  std::size_t ranks_bytes = kMaxRanksBytes / 2;
  for (std::size_t i = 0; i < std::min(digest.groups.size(), kMaxGroups); ++i)
    wire::AppendBytesField(22, EncodeCommunicator(digest.groups[i], ranks_bytes), bytes);
  return bytes;
}

// Encodes with the lists' `kept` rows, and tells the lists' sizes.
std::string EncodeKept(const Digest& digest, Lists& lists) {
  Renumbering names, communicators;
  Cuts cuts = digest.cuts;
  std::vector<Step> steps(digest.steps.begin(),
                          digest.steps.begin() + static_cast<std::ptrdiff_t>(lists.steps.kept));
  for (Step& step : steps) step.loop = names(step.loop);
  std::vector<Collective> collectives;
  for (std::size_t i = 0; i < lists.collectives.kept; ++i) {
    Collective collective = digest.collectives[i];
    if (collective.device != kNoDevice && collective.device >= kMaxDevices) {
      ++cuts.collectives;
      continue;
    }
    collective.name = names(collective.name);
    collective.communicator = communicators(collective.communicator);
    collectives.push_back(collective);
  }
  const std::size_t names_before_ops = names.order().size();
  std::vector<Op> ops(digest.ops.begin(),
                      digest.ops.begin() + static_cast<std::ptrdiff_t>(lists.ops.kept));
  for (Op& op : ops) op.name = names(op.name);
  cuts.steps += digest.steps.size() - lists.steps.kept;
  cuts.collectives += digest.collectives.size() - lists.collectives.kept;
  cuts.ops += digest.ops.size() - lists.ops.kept;
  if (digest.devices.size() > kMaxDevices) cuts.devices += digest.devices.size() - kMaxDevices;

  std::string bytes = EncodeHead(digest);
  std::size_t before = bytes.size(), ranks_bytes = 0;
  // Ends a part of the encoding; returns its size.
  const auto part = [&] {
    const std::size_t size = bytes.size() - before;
    before = bytes.size();
    return size;
  };
  const auto append_names = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i)
      wire::AppendBytesField(15, digest.names[names.order()[i]], bytes);
  };
  append_names(0, names_before_ops);
  for (const std::uint32_t old : communicators.order())
    wire::AppendBytesField(18, EncodeCommunicator(digest.communicators[old], ranks_bytes), bytes);
  AppendPart(19, EncodeRows<Collective>(collectives, kCollectiveColumns), bytes);
  lists.collectives.bytes = part();
  append_names(names_before_ops, names.order().size());
  AppendPart(20, EncodeRows<Op>(ops, kOpColumns), bytes);
  lists.ops.bytes = part();
  AppendPart(16, EncodeRows<Step>(steps, kStepColumns), bytes);
  lists.steps.bytes = part();
  AppendPart(21, EncodeFields(cuts, kCutsFields), bytes);
  return bytes;
}

}  // namespace

std::string EncodeDigest(const Digest& digest, std::size_t max_bytes) {
  Lists lists{.steps = {digest.steps.size()},
              .collectives = {digest.collectives.size()},
              .ops = {digest.ops.size()}};
  while (true) {
    std::string bytes = EncodeKept(digest, lists);
    List* const largest =
        std::max({&lists.steps, &lists.collectives, &lists.ops},
                 [](const List* a, const List* b) { return a->bytes < b->bytes; });
    if (bytes.size() <= max_bytes || largest->kept == 0) return bytes;
    // Removes a little more than the excess, but at most half of the list at once.
    const std::size_t over = (bytes.size() - max_bytes) * 9 / 8;
    const std::size_t room =
        std::max(largest->bytes / 2, largest->bytes - std::min(over, largest->bytes));
    largest->kept = std::min(largest->kept - 1, largest->kept * room / largest->bytes);
  }
}

}  // namespace strobe::digest
