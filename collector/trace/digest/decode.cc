#include <algorithm>

#include "collector/trace/digest/columns.h"
#include "collector/trace/digest/encode.h"
#include "collector/trace/xplane/varint.h"
#include "collector/trace/xplane/wire.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::digest {
namespace {

// More than EncodeDigest writes, so that hostile bytes cannot fill the memory.
constexpr std::size_t kMaxRows = 65536, kMaxParts = 1024, kMaxText = 256;

absl::Status Broken(std::string_view why) {
  return absl::InvalidArgumentError(ToAbsl(StrCat("not a digest: ", why)));
}
absl::Status Malformed(const absl::Status& status) {
  return status.ok() ? status : Broken(MessageOf(status));
}

// The value that `coded` stands for. InvalidArgument if it is out of range.
absl::Status Uncode(Coding coding, std::int64_t coded, std::int64_t& before, std::int64_t& value) {
  value = coded;
  switch (coding) {
    case Coding::kDelta:
      value = before = AddSaturated(before, wire::UnZigZag(static_cast<std::uint64_t>(coded)));
      return absl::OkStatus();
    case Coding::kSigned:
      value = wire::UnZigZag(static_cast<std::uint64_t>(coded));
      return absl::OkStatus();
    case Coding::kDuration:
      return coded < 0 ? Broken("a negative duration") : absl::OkStatus();
    case Coding::kSmall:
      return coded < 0 || coded > std::numeric_limits<std::uint32_t>::max()
                 ? Broken("a number of more than 32 bits")
                 : absl::OkStatus();
    case Coding::kFlag:
      value = coded != 0 ? 1 : 0;
      return absl::OkStatus();
    case Coding::kAny:
      break;
  }
  return absl::OkStatus();
}

template <typename Row, std::size_t kColumns>
absl::Status DecodeRows(std::string_view message, const std::array<Column<Row>, kColumns>& columns,
                        std::vector<Row>& rows) {
  std::array<std::vector<std::int64_t>, kColumns> values;
  wire::Reader reader(message);
  while (reader.Next()) {
    for (std::size_t i = 0; i < kColumns; ++i) {
      if (columns[i].field != reader.field()) continue;
      // Each value takes a byte at least.
      if (values[i].size() + reader.bytes().size() > kMaxRows * 10) return Broken("a long list");
      RETURN_IF_ERROR(Malformed(reader.AppendIntegers(values[i])));
    }
  }
  RETURN_IF_ERROR(Malformed(reader.status()));
  const std::size_t count = values.front().size();
  if (count > kMaxRows) return Broken("a list with too many entries");
  rows.resize(count);
  for (std::size_t i = 0; i < kColumns; ++i) {
    // A column that is not there holds zeros.
    if (!values[i].empty() && values[i].size() != count) return Broken("columns of unequal length");
    std::int64_t before = 0, value = 0;
    for (std::size_t row = 0; row < count; ++row) {
      RETURN_IF_ERROR(
          Uncode(columns[i].coding, values[i].empty() ? 0 : values[i][row], before, value));
      columns[i].set(rows[row], value);
    }
  }
  return absl::OkStatus();
}

// Reads the fields that the table has; `other` gets the rest.
template <typename Message, std::size_t kFields, typename Other>
absl::Status DecodeFields(std::string_view bytes,
                          const std::array<Column<Message>, kFields>& fields, Message& message,
                          const Other& other) {
  wire::Reader reader(bytes);
  while (reader.Next()) {
    for (const Column<Message>& field : fields) {
      if (field.field != reader.field()) continue;
      std::int64_t before = 0, value = 0;
      RETURN_IF_ERROR(Uncode(field.coding, reader.signed_value(), before, value));
      field.set(message, value);
    }
    RETURN_IF_ERROR(other(reader));
  }
  return Malformed(reader.status());
}
template <typename Message, std::size_t kFields>
absl::Status DecodeFields(std::string_view bytes,
                          const std::array<Column<Message>, kFields>& fields, Message& message) {
  return DecodeFields(bytes, fields, message, [](const wire::Reader&) { return absl::OkStatus(); });
}

absl::Status DecodeDevice(std::string_view bytes, Device& device) {
  return DecodeFields(bytes, kDeviceFields, device,
                      [&](const wire::Reader& reader) -> absl::Status {
                        if (reader.field() == 1) device.name = CutUtf8(reader.bytes(), kMaxText);
                        if (reader.field() == 10) device.peak_memory_bytes = reader.value();
                        if (reader.field() == 11) device.memory_bytes = reader.value();
                        if (reader.field() != 4) return absl::OkStatus();
                        return DecodeFields(reader.bytes(), kBreakdownFields, device.time);
                      });
}

absl::Status Natural32(const wire::Reader& reader, std::uint32_t& number) {
  if (reader.value() > std::numeric_limits<std::uint32_t>::max())
    return Broken("a number of more than 32 bits");
  number = static_cast<std::uint32_t>(reader.value());
  return absl::OkStatus();
}

absl::Status DecodeCommunicator(std::string_view bytes, Communicator& communicator) {
  wire::Reader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == 1) communicator.name = CutUtf8(reader.bytes(), kMaxText);
    if (reader.field() == 2) RETURN_IF_ERROR(Natural32(reader, communicator.size));
    if (reader.field() != 3) continue;
    std::vector<std::int64_t> ranks;
    RETURN_IF_ERROR(Malformed(reader.AppendIntegers(ranks)));
    std::int64_t before = 0, rank = 0;
    for (const std::int64_t coded : ranks) {
      RETURN_IF_ERROR(Uncode(Coding::kDelta, coded, before, rank));
      if (rank < 0 || rank > std::numeric_limits<std::uint32_t>::max())
        return Broken("a rank out of range");
      communicator.ranks.push_back(static_cast<std::uint32_t>(rank));
    }
  }
  return Malformed(reader.status());
}

// One field of the digest that is a number or a text.
absl::Status DecodeScalar(const wire::Reader& reader, Digest& digest) {
  std::uint32_t number = 0;
  switch (reader.field()) {
    case 1:
      return reader.value() == 1 ? absl::OkStatus() : Broken("an unknown format");
    case 2:
      digest.worker = CutUtf8(reader.bytes(), kMaxText);
      break;
    case 3:
      RETURN_IF_ERROR(Natural32(reader, number));
      digest.rank = number;
      break;
    case 4:
      RETURN_IF_ERROR(Natural32(reader, number));
      digest.world_size = number;
      break;
    case 5:
      digest.host = CutUtf8(reader.bytes(), kMaxText);
      break;
    case 6:
      digest.zero_ns = reader.signed_value();
      break;
    case 7:
      digest.clock_offset_ns = wire::UnZigZag(reader.value());
      break;
    case 8:
      if (reader.signed_value() < 0) return Broken("a negative error");
      digest.clock_error_ns = reader.signed_value();
      break;
    case 9:
      digest.begin_ns = wire::UnZigZag(reader.value());
      break;
    case 10:
      digest.end_ns = wire::UnZigZag(reader.value());
      break;
    case 11:
      digest.events = reader.value();
      break;
    default:
      break;
  }
  return absl::OkStatus();
}

absl::Status DecodeMessage(const wire::Reader& reader, Digest& digest) {
  const std::string_view bytes = reader.bytes();
  switch (reader.field()) {
    case 12:
      return DecodeFields(bytes, kKnowsFields, digest.knows);
    case 13:
      return DecodeFields(bytes, kBreakdownFields, digest.time);
    case 14:
      return DecodeFields(bytes, kHostTimeFields, digest.host_time);
    case 15:
      if (digest.names.size() == kMaxRows) return Broken("too many names");
      digest.names.push_back(CutUtf8(bytes, kMaxText));
      return absl::OkStatus();
    case 16:
      return DecodeRows(bytes, kStepColumns, digest.steps);
    case 17:
      if (digest.devices.size() == kMaxParts) return Broken("too many devices");
      return DecodeDevice(bytes, digest.devices.emplace_back());
    case 18:
      if (digest.communicators.size() == kMaxParts) return Broken("too many communicators");
      return DecodeCommunicator(bytes, digest.communicators.emplace_back());
    case 19:
      return DecodeRows(bytes, kCollectiveColumns, digest.collectives);
    case 20:
      return DecodeRows(bytes, kOpColumns, digest.ops);
    case 21:
      return DecodeFields(bytes, kCutsFields, digest.cuts);
    case 22:
      if (digest.groups.size() == kMaxParts) return Broken("too many groups");
      return DecodeCommunicator(bytes, digest.groups.emplace_back());
    default:
      return absl::OkStatus();
  }
}

absl::Status CheckReferences(const Digest& digest) {
  const std::size_t names = digest.names.size();
  for (const Step& step : digest.steps) {
    if (step.loop >= names) return Broken("a step without a name");
  }
  for (const Op& op : digest.ops) {
    if (op.name >= names || op.kind > WorkKind::kScope) return Broken("an unknown operation");
  }
  for (const Collective& collective : digest.collectives) {
    if (collective.name >= names || collective.communicator >= digest.communicators.size() ||
        (collective.device != kNoDevice && collective.device >= digest.devices.size()) ||
        collective.kind > CollectiveKind::kBarrier)
      return Broken("an unknown collective");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Digest> DecodeDigest(std::string_view bytes) {
  if (bytes.size() > kMaxDigestBytes) return Broken("it is too long");
  Digest digest;
  bool has_format = false;
  wire::Reader reader(bytes);
  while (reader.Next()) {
    has_format = has_format || reader.field() == 1;
    RETURN_IF_ERROR(reader.field() < 12 ? DecodeScalar(reader, digest)
                                        : DecodeMessage(reader, digest));
  }
  RETURN_IF_ERROR(Malformed(reader.status()));
  if (!has_format) return Broken("it has no format");
  RETURN_IF_ERROR(CheckReferences(digest));
  return digest;
}

}  // namespace strobe::digest
