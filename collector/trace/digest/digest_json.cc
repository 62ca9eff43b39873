#include "collector/trace/digest/digest_json.h"

#include <optional>

#include "common/base/enum_names.h"

namespace strobe::digest {
namespace {

using DigestJson = nlohmann::ordered_json;

// 0 means that the trace does not tell.
DigestJson NonZeroOrNull(std::uint64_t number) {
  return number == 0 ? DigestJson(nullptr) : DigestJson(number);
}

DigestJson StepsJson(const Digest& digest) {
  DigestJson steps = DigestJson::array();
  for (const Step& step : digest.steps) {
    DigestJson& json = steps.emplace_back();
    json = {{"loop", digest.names[step.loop]},
            {"number", step.number},
            {"beginNs", step.begin_ns},
            {"endNs", step.end_ns},
            {"annotationEndNs", step.annotation_end_ns},
            {"followed", step.followed},
            {"time", digest.knows.device ? TimeJson(step.time) : DigestJson()},
            {"host", HostTimeJson(step.host, digest.knows)}};
    if (!step.batch.any()) continue;
    json["batch"] = {{"prefillRequests", step.batch.prefill_requests},
                     {"prefillTokens", step.batch.prefill_tokens},
                     {"decodeRequests", step.batch.decode_requests},
                     {"decodeTokens", step.batch.decode_tokens}};
  }
  return steps;
}

DigestJson DevicesJson(const Digest& digest) {
  DigestJson devices = DigestJson::array();
  for (const Device& device : digest.devices) {
    devices.push_back({{"name", device.name},
                       {"firstNs", device.first_ns},
                       {"lastNs", device.last_ns},
                       {"time", TimeJson(device.time)},
                       {"coarse", device.coarse},
                       {"flops", NonZeroOrNull(device.flops)},
                       {"bytesAccessed", NonZeroOrNull(device.bytes_accessed)},
                       {"peakFlopsPerSecond", NonZeroOrNull(device.peak_flops)},
                       {"peakBytesPerSecond", NonZeroOrNull(device.peak_bytes)},
                       {"peakMemoryBytes", KnownOrNull(device.peak_memory_bytes)},
                       {"memoryBytes", KnownOrNull(device.memory_bytes)}});
  }
  return devices;
}

DigestJson CommunicatorsJson(const std::vector<Communicator>& communicators) {
  DigestJson list = DigestJson::array();
  for (const Communicator& communicator : communicators) {
    list.push_back({{"name", communicator.name},
                    {"size", NonZeroOrNull(communicator.size)},
                    {"ranks", communicator.ranks}});
  }
  return list;
}

DigestJson CollectivesJson(const Digest& digest) {
  DigestJson collectives = DigestJson::array();
  for (const Collective& collective : digest.collectives) {
    DigestJson json = {{"name", digest.names[collective.name]},   {"kind", NameOf(collective.kind)},
                       {"communicator", collective.communicator}, {"ordinal", collective.ordinal},
                       {"beginNs", collective.begin_ns},          {"endNs", collective.end_ns},
                       {"bytes", NonZeroOrNull(collective.bytes)}};
    if (collective.device != kNoDevice) json["device"] = collective.device;
    if (collective.sequence >= 0) json["sequence"] = collective.sequence;
    collectives.push_back(std::move(json));
  }
  return collectives;
}

DigestJson OpsJson(const Digest& digest) {
  DigestJson ops = DigestJson::array();
  for (const Op& op : digest.ops) {
    const auto quantile = [&op](std::int64_t ns) {
      return op.knows_quantiles() ? DigestJson(ns) : DigestJson(nullptr);
    };
    ops.push_back({{"name", digest.names[op.name]},
                   {"kind", NameOf(op.kind)},
                   {"count", op.count},
                   {"totalNs", op.total_ns},
                   {"selfNs", op.self_ns},
                   {"p50Ns", quantile(op.p50_ns)},
                   {"p99Ns", quantile(op.p99_ns)},
                   {"flops", NonZeroOrNull(op.flops)},
                   {"bytesAccessed", NonZeroOrNull(op.bytes_accessed)}});
  }
  return ops;
}

}  // namespace

DigestJson TimeJson(const Breakdown& time) {
  return {{"spanNs", time.span_ns},
          {"computeNs", time.compute_ns},
          {"communicationNs", time.communication_ns},
          {"exposedCommunicationNs", time.exposed_communication_ns},
          {"copiesNs", time.copies_ns},
          {"exposedCopiesNs", time.exposed_copies_ns},
          {"idleNs", time.idle_ns}};
}

DigestJson HostTimeJson(const HostTime& time, const Knows& knows) {
  const auto known = [](bool is, std::int64_t ns) { return is ? DigestJson(ns) : DigestJson(); };
  return {{"inputNs", known(knows.input, time.input_ns)},
          {"inputStallNs", known(knows.input, time.input_stall_ns)},
          {"garbageCollectionNs", known(knows.garbage_collection, time.garbage_collection_ns)},
          {"hostBoundNs", known(knows.launches, time.host_bound_ns)}};
}

std::string_view NameOf(WorkKind kind) {
  static constexpr EnumNames<WorkKind, 7> kNames(
      {{WorkKind::kCompute, "compute"},
       {WorkKind::kCommunication, "communication"},
       {WorkKind::kCopy, "copy"},
       {WorkKind::kInput, "input"},
       {WorkKind::kGarbageCollection, "garbage collection"},
       {WorkKind::kHost, "host"},
       {WorkKind::kScope, "scope"}});
  return kNames.Of(kind, "host");
}

std::string_view NameOf(CollectiveKind kind) {
  static constexpr EnumNames<CollectiveKind, 13> kNames(
      {{CollectiveKind::kOther, "other"},
       {CollectiveKind::kAllReduce, "all-reduce"},
       {CollectiveKind::kAllGather, "all-gather"},
       {CollectiveKind::kReduceScatter, "reduce-scatter"},
       {CollectiveKind::kAllToAll, "all-to-all"},
       {CollectiveKind::kBroadcast, "broadcast"},
       {CollectiveKind::kReduce, "reduce"},
       {CollectiveKind::kGather, "gather"},
       {CollectiveKind::kScatter, "scatter"},
       {CollectiveKind::kPermute, "permute"},
       {CollectiveKind::kSend, "send"},
       {CollectiveKind::kReceive, "receive"},
       {CollectiveKind::kBarrier, "barrier"}});
  return kNames.Of(kind, "other");
}

DigestJson DigestToJson(const Digest& digest) {
  return {{"worker", digest.worker},
          {"rank", KnownOrNull(digest.rank)},
          {"worldSize", KnownOrNull(digest.world_size)},
          {"host", digest.host},
          {"zeroUnixNs", digest.zero_ns},
          {"clockOffsetNs", digest.clock_offset_ns},
          {"clockErrorNs", KnownOrNull(digest.clock_error_ns)},
          {"beginNs", digest.begin_ns},
          {"endNs", digest.end_ns},
          {"events", digest.events},
          {"knows",
           {{"device", digest.knows.device},
            {"hostDevice", digest.knows.host_device},
            {"deviceUntold", digest.knows.device_untold},
            {"launches", digest.knows.launches},
            {"input", digest.knows.input},
            {"garbageCollection", digest.knows.garbage_collection},
            {"steps", digest.knows.steps}}},
          {"time", digest.knows.device ? TimeJson(digest.time) : DigestJson()},
          {"hostTime", HostTimeJson(digest.host_time, digest.knows)},
          {"steps", StepsJson(digest)},
          {"devices", DevicesJson(digest)},
          {"communicators", CommunicatorsJson(digest.communicators)},
          {"groups", CommunicatorsJson(digest.groups)},
          {"collectives", CollectivesJson(digest)},
          {"ops", OpsJson(digest)},
          {"leftOut",
           {{"steps", digest.cuts.steps},
            {"collectives", digest.cuts.collectives},
            {"ops", digest.cuts.ops},
            {"devices", digest.cuts.devices}}}};
}

}  // namespace strobe::digest
