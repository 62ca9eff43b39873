#include "collector/trace/xplane/edit.h"

#include <algorithm>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/summary.h"
#include "collector/trace/xplane/wire.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::xplane {
namespace {

using wire::AppendBytesField;
using wire::AppendVarintField;
using wire::Reader;

// In protobuf the last value of a field wins. A second name or time stamp behind the first one
// therefore replaces it, and the original bytes stay unchanged.

// Appends a line with its time stamp moved.
absl::Status AppendShiftedLine(std::string_view line, const PlaneChange& change, std::string& to) {
  std::int64_t timestamp = 0;
  Reader reader(line);
  while (reader.Next()) {
    if (reader.field() == 3) timestamp = reader.signed_value();
  }
  RETURN_IF_ERROR(reader.status());
  std::string moved;
  const std::int64_t zero_ns = IsUnixTime(timestamp) ? change.zero_ns : 0;
  // Unsigned arithmetic, in which hostile numbers wrap without undefined behaviour.
  const std::uint64_t shifted = static_cast<std::uint64_t>(timestamp) -
                                static_cast<std::uint64_t>(zero_ns) +
                                static_cast<std::uint64_t>(change.shift_ns);
  if (shifted != static_cast<std::uint64_t>(timestamp)) AppendVarintField(3, shifted, moved);
  wire::AppendVarint(3 << 3 | 2, to);
  wire::AppendVarint(line.size() + moved.size(), to);
  to.append(line).append(moved);
  return absl::OkStatus();
}

bool HasHostname(std::string_view xspace) {
  Reader reader(xspace);
  while (reader.Next()) {
    if (reader.field() == 4) return true;
  }
  return false;
}

}  // namespace

absl::Status AppendPlane(std::string_view plane, const PlaneChange& change, std::string& to) {
  const auto& [tag, shift_ns, id, zero_ns] = change;
  const bool moves = shift_ns != 0 || zero_ns != 0;
  std::string_view name;
  std::string changed;
  Reader reader(plane);
  while (reader.Next()) {
    if (reader.field() == 2) name = reader.bytes();
    if (!moves) continue;
    if (reader.field() == 3)
      RETURN_IF_ERROR(AppendShiftedLine(reader.bytes(), change, changed));
    else
      changed.append(reader.raw());
  }
  RETURN_IF_ERROR(reader.status());
  std::string rename;
  if (!tag.empty()) AppendBytesField(2, StrCat(name, " [", tag, "]"), rename);
  if (id) AppendVarintField(1, static_cast<std::uint64_t>(*id), rename);
  const std::string_view body = moves ? std::string_view(changed) : plane;
  wire::AppendVarint(1 << 3 | 2, to);
  wire::AppendVarint(body.size() + rename.size(), to);
  to.append(body).append(rename);
  return absl::OkStatus();
}

std::string EncodeStatPlane(std::string_view name,
                            const std::vector<std::pair<std::string, StatValue>>& stats) {
  PlaneBuilder plane(name);
  for (const auto& [key, value] : stats) {
    if (const auto* number = std::get_if<std::int64_t>(&value))
      plane.AddPlaneStat(key, *number);
    else
      plane.AddPlaneStat(key, std::string_view(std::get<std::string>(value)));
  }
  return plane.Encode();
}

namespace {

// Returns the XSpace, whose times count from `zero_ns`, with every line moved by `shift_ns`.
absl::StatusOr<std::string> ShiftLines(std::string_view xspace, std::int64_t shift_ns,
                                       std::int64_t zero_ns) {
  std::string shifted;
  shifted.reserve(xspace.size());
  Reader reader(xspace);
  while (reader.Next()) {
    if (reader.field() == 1)
      RETURN_IF_ERROR(
          AppendPlane(reader.bytes(), {.shift_ns = shift_ns, .zero_ns = zero_ns}, shifted));
    else
      shifted.append(reader.raw());
  }
  RETURN_IF_ERROR(reader.status());
  return shifted;
}

}  // namespace

absl::Status AppendXSpace(std::string_view part, std::string_view tag, std::string& whole) {
  // Each trace's times count from its own start. The joined trace counts from the earlier one.
  ASSIGN_OR_RETURN(const std::int64_t whole_zero, TimeZero(whole));
  ASSIGN_OR_RETURN(const std::int64_t part_zero, TimeZero(part));
  std::int64_t later = 0;
  if (whole_zero > 0 && part_zero > 0) later = part_zero - whole_zero;
  std::string joined;
  if (later < 0) {
    ASSIGN_OR_RETURN(joined, ShiftLines(whole, -later, whole_zero));
  }
  std::string& to = later < 0 ? joined : whole;
  const std::size_t before = to.size();
  bool has_hostname = HasHostname(to);
  const auto append = [&]() -> absl::Status {
    Reader reader(part);
    while (reader.Next()) {
      if (reader.field() == 4) {
        if (!has_hostname) to.append(reader.raw());
        has_hostname = true;
      } else if (reader.field() == 1) {
        RETURN_IF_ERROR(AppendPlane(reader.bytes(),
                                    {.tag = tag,
                                     .shift_ns = std::max<std::int64_t>(later, 0),
                                     .zero_ns = later > 0 ? part_zero : 0},
                                    to));
      } else {
        to.append(reader.raw());
      }
    }
    return reader.status();
  };
  const absl::Status status = append();
  if (!status.ok())
    to.resize(before);
  else if (later < 0)
    whole = std::move(joined);
  return status;
}

void AppendNote(std::uint32_t field, std::string_view note, std::string& whole) {
  constexpr std::size_t kMaxNoteBytes = 1024;
  AppendBytesField(field, CutUtf8(note, kMaxNoteBytes), whole);
}

}  // namespace strobe::xplane
