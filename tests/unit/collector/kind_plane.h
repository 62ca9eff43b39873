// Planes that store stats once per event name, as those of TPUs do; PlaneBuilder cannot.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/wire.h"

namespace strobe {

struct KindOfEvents {
  std::int64_t id = 0;
  std::string_view name{}, shown{};
  std::vector<std::pair<std::int64_t, std::string_view>> texts{};
  std::vector<std::pair<std::int64_t, std::uint64_t>> numbers{};
};

// Adds what is known of the events of a name to an encoded plane.
inline std::string WithKind(const std::string& plane, const KindOfEvents& kind) {
  std::string metadata, entry, stat;
  wire::AppendVarintField(1, static_cast<std::uint64_t>(kind.id), metadata);
  wire::AppendBytesField(2, kind.name, metadata);
  wire::AppendBytesField(4, kind.shown, metadata);
  for (const auto& [name, text] : kind.texts) {
    stat.clear();
    wire::AppendVarintField(1, static_cast<std::uint64_t>(name), stat);
    wire::AppendBytesField(5, text, stat);
    wire::AppendBytesField(5, stat, metadata);
  }
  for (const auto& [name, number] : kind.numbers) {
    stat.clear();
    wire::AppendVarintField(1, static_cast<std::uint64_t>(name), stat);
    wire::AppendVarintField(3, number, stat);
    wire::AppendBytesField(5, stat, metadata);
  }
  wire::AppendVarintField(1, static_cast<std::uint64_t>(kind.id), entry);
  wire::AppendBytesField(2, metadata, entry);
  wire::Reader outer(plane);
  std::string whole(outer.Next() ? outer.bytes() : std::string_view());
  wire::AppendBytesField(4, entry, whole);
  std::string made;
  wire::AppendBytesField(1, whole, made);
  return made;
}

// Two operations of a TPU, twice each: fusion.1, and fusion.2, which communicates. Their kinds tell
// it, and the last event says something else of itself.
inline std::string PlaneWithKinds() {
  xplane::PlaneBuilder tpu("/device:TPU:0", 1);
  const std::int64_t first = tpu.EventId("%fusion.1 = f32[8] fusion()"),
                     second = tpu.EventId("%fusion.2 = f32[8] fusion(), replica_groups={{0,1}}"),
                     category = tpu.StatId("hlo_category"), flops = tpu.StatId("flops"),
                     bytes = tpu.StatId("bytes_accessed");
  tpu.BeginLine(1, "XLA Ops", 0);
  tpu.AddEvent(first, 0, 60'000'000);
  tpu.AddEvent(second, 60'000'000, 30'000'000);
  tpu.AddEvent(first, 100'000'000, 60'000'000);
  tpu.AddEvent(second, 160'000'000, 30'000'000);
  tpu.AddEventStat(bytes, std::int64_t{7});
  const std::string plane = WithKind(tpu.Encode(), {first,
                                                    "%fusion.1 = f32[8] fusion()",
                                                    "fusion.1",
                                                    {{category, "loop fusion"}},
                                                    {{flops, std::uint64_t{1} << 60}, {bytes, 5}}});
  return WithKind(plane, {second,
                          "%fusion.2 = f32[8] fusion(), replica_groups={{0,1}}",
                          "fusion.2",
                          {{category, "all-reduce fusion"}},
                          {{bytes, 9}}});
}

}  // namespace strobe
