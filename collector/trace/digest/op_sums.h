// Sums per operation: how often it ran and how long.
#pragma once
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "collector/trace/digest/classify.h"
#include "collector/trace/digest/durations.h"
#include "collector/trace/xplane/space.h"
#include "common/base/saturated.h"

namespace strobe::digest {

struct OpSum {
  std::string_view name{};  // Refers to the trace's bytes.
  WorkKind kind = WorkKind::kHost;
  bool on_device = false;  // When it was found, its kind was one of devices' work.
  std::uint64_t count = 0;
  std::int64_t total_ps = 0, self_ps = 0;
  std::uint64_t flops = 0, bytes_accessed = 0;
};

// The operations of all planes. Those with the same name and kind are one.
class OpSums {
 public:
  // Further names are counted together, as the operation "(others)".
  static constexpr std::size_t kMaxOps = std::size_t{1} << 16;

  std::uint32_t Find(std::string_view name, WorkKind kind);
  void Count(std::uint32_t op, std::int64_t duration_ps) {
    ++sums_[op].count;
    sums_[op].total_ps = AddSaturated(sums_[op].total_ps, duration_ps);
    (sums_[op].on_device ? device_durations_ : host_durations_).Add(op, duration_ps);
  }
  void AddSelf(std::uint32_t op, std::int64_t change_ps) {
    sums_[op].self_ps = AddSaturated(sums_[op].self_ps, change_ps);
  }
  OpSum& operator[](std::uint32_t op) { return sums_[op]; }

  // The `most` operations with the most self time, that one first; their number in the digest's
  // names is filled in by `name`.
  template <typename Name>
  std::vector<Op> Top(std::size_t most, const Name& name) const;
  std::uint64_t uncounted() const { return uncounted_; }
  std::size_t size() const { return sums_.size(); }

 private:
  struct Key {
    std::string_view name{};
    WorkKind kind{};
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return std::hash<std::string_view>()(key.name) * 8 + static_cast<std::size_t>(key.kind);
    }
  };
  std::vector<std::uint32_t> BySelfTime() const;
  Op Summary(std::uint32_t op, const Durations::Quantiles& quantiles) const;

  std::vector<OpSum> sums_{};
  std::unordered_map<Key, std::uint32_t, Hash> numbers_{};
  // Two tables, because the host is read first and may fill its own.
  Durations host_durations_{}, device_durations_{};
  std::uint64_t uncounted_ = 0;  // Names that are counted together.
};

template <typename Name>
std::vector<Op> OpSums::Top(std::size_t most, const Name& name) const {
  const std::vector<Durations::Quantiles> of_host = host_durations_.Compute(sums_.size());
  const std::vector<Durations::Quantiles> of_device = device_durations_.Compute(sums_.size());
  std::vector<Op> top;
  for (const std::uint32_t op : BySelfTime()) {
    if (top.size() == most) break;
    top.push_back(Summary(op, sums_[op].on_device ? of_device[op] : of_host[op]));
    top.back().name = name(sums_[op].name);
  }
  return top;
}

// What is known of the events of a plane that share a name.
struct EventKind {
  std::uint32_t op = 0;
  WorkClass work{};
  std::uint64_t flops = 0, bytes_accessed = 0;  // What one event takes.
  const xplane::EventName* name = nullptr;      // nullptr: the trace does not name it.
  // The events themselves may tell what their work is, as in JSON; see DeviceReader.
  bool events_tell = false;
  // What the first event's stats and line tell of a device's work, if the name tells nothing.
  WorkClass by_stats{};
};

// The kinds of one plane's events, by the id of their name. `make(const EventName*)` makes one.
class EventKinds {
 public:
  explicit EventKinds(const xplane::Plane& plane);

  template <typename Make>
  const EventKind& Find(std::int64_t name_id, const Make& make) {
    if (name_id >= 0 && static_cast<std::uint64_t>(name_id) < dense_.size()) {
      Slot& slot = dense_[static_cast<std::size_t>(name_id)];
      if (slot == 0) slot = Add(name_id, make);
      return kinds_[slot - 1];
    }
    Slot& slot = sparse_[name_id];
    if (slot == 0) slot = Add(name_id, make);
    return kinds_[slot - 1];
  }

 private:
  using Slot = std::uint32_t;  // A number in `kinds_` plus 1; 0 = not made yet.
  template <typename Make>
  Slot Add(std::int64_t name_id, const Make& make) {
    const auto found = plane_.event_names.find(name_id);
    kinds_.push_back(make(found == plane_.event_names.end() ? nullptr : &found->second));
    return static_cast<Slot>(kinds_.size());
  }

  const xplane::Plane& plane_;
  std::vector<EventKind> kinds_{};
  std::vector<Slot> dense_{};  // Profilers number names from 1 on.
  // Its hashes cannot be foreseen: a trace may choose ids that collide in a std::unordered_map.
  absl::flat_hash_map<std::int64_t, Slot> sparse_{};
};

}  // namespace strobe::digest
