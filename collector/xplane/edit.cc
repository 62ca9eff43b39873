#include "collector/xplane/edit.h"

#include "collector/base/status_macros.h"
#include "collector/base/strings.h"
#include "collector/xplane/builder.h"
#include "collector/xplane/wire.h"

namespace strobe::xplane {
namespace {

using wire::AppendBytesField;
using wire::AppendVarintField;
using wire::Reader;

absl::StatusOr<std::string_view> PlaneName(std::string_view plane) {
  std::string_view name;
  Reader reader(plane);
  while (reader.Next()) {
    if (reader.field() == 2) name = reader.bytes();
  }
  RETURN_IF_ERROR(reader.status());
  return name;
}

bool HasHostname(std::string_view xspace) {
  Reader reader(xspace);
  while (reader.Next()) {
    if (reader.field() == 4) return true;
  }
  return false;
}

}  // namespace

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

absl::Status AppendXSpace(std::string_view part, std::string_view tag, std::string& whole) {
  bool has_hostname = HasHostname(whole);
  const std::size_t before = whole.size();
  Reader reader(part);
  while (reader.Next()) {
    if (reader.field() == 4) {
      if (!has_hostname) whole.append(reader.raw());
      has_hostname = true;
    } else if (reader.field() == 1 && !tag.empty()) {
      const absl::StatusOr<std::string_view> name = PlaneName(reader.bytes());
      if (!name.ok()) {
        whole.resize(before);
        return name.status();
      }
      // The last value of a field wins, so a second name replaces the first without a copy of what
      // lies between.
      std::string rename;
      AppendBytesField(2, StrCat(*name, " [", tag, "]"), rename);
      wire::AppendVarint(1 << 3 | 2, whole);
      wire::AppendVarint(reader.bytes().size() + rename.size(), whole);
      whole.append(reader.bytes()).append(rename);
    } else {
      whole.append(reader.raw());
    }
  }
  if (!reader.status().ok()) whole.resize(before);
  return reader.status();
}

}  // namespace strobe::xplane
