#include "viewer/answers/kinds.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <variant>
#include <vector>

#include "collector/trace/digest/classify.h"
#include "collector/trace/digest/device_lines.h"
#include "collector/trace/tally/device_tally.h"
#include "common/text/json.h"

namespace strobe::viewer {
namespace {

using Json = nlohmann::ordered_json;
using digest::DeviceLines;

constexpr std::size_t kMaxKindNames = 20'000;  // For each kind.

using NamesByKind = std::map<std::string_view, std::set<std::string_view>>;

// What the page calls a kind; empty for those that it does not ask about.
std::string_view PageKind(digest::WorkKind kind) {
  switch (kind) {
    case digest::WorkKind::kCommunication:
      return "communication";
    case digest::WorkKind::kCopy:
      return "copies";
    case digest::WorkKind::kInput:
      return "input";
    case digest::WorkKind::kGarbageCollection:
      return "collection";
    case digest::WorkKind::kCompute:
    case digest::WorkKind::kHost:
    case digest::WorkKind::kScope:
      break;
  }
  return {};
}

void AddName(digest::WorkKind kind, std::string_view name, NamesByKind& names) {
  const std::string_view key = PageKind(kind);
  if (key.empty()) return;
  // The first in their order, whatever order the plane has them in.
  std::set<std::string_view>& all = names[key];
  all.insert(name);
  if (all.size() > kMaxKindNames) all.erase(std::prev(all.end()));
}

// XLA's category of a name, if all its events share one.
std::string_view CategoryOf(const xplane::Plane& plane, const xplane::EventName& name) {
  const std::int64_t category_id = plane.StatId("hlo_category");
  std::string_view category;
  if (category_id == 0) return category;
  // A damaged stat tells nothing.
  (void)plane.ForEachKindStat(name, [&](const xplane::Stat& stat) {
    const auto* text = std::get_if<std::string_view>(&stat.value);
    if (stat.name_id == category_id && text != nullptr) category = *text;
  });
  return category;
}

Json ListsOf(const NamesByKind& names) {
  Json lists = Json::object();
  for (const auto& [kind, all] : names) {
    Json& list = lists[std::string(kind)] = Json::array();
    for (const std::string_view name : all) list.push_back(name);
  }
  return lists;
}

class KindReader {
 public:
  explicit KindReader(const LoadedRun& run) : run_(run) {}

  void AddPlane(std::uint32_t worker, std::size_t number) {
    const index::Index& index = run_.workers[worker].index();
    const index::Plane& plane = index.planes()[number];
    const xplane::Plane outline = tally::OutlineOf(index, plane);
    const bool is_device = digest::IsDevicePlane(outline.name);
    const DeviceLines lines(outline);
    if (is_device) AddRows(worker, plane, lines);
    const std::vector<xplane::Plane>& planes = run_.workers[worker].files->space.planes;
    if (number >= planes.size() || (is_device && lines.coarse())) return;
    for (const auto& [id, name] : planes[number].event_names) {
      if (is_device) {
        const std::string_view category = CategoryOf(planes[number], name);
        AddName(digest::ClassifyDeviceWork(name.shown(), category, lines.is_hlo()).kind,
                name.shown(), device_);
      } else {
        AddName(digest::ClassifyHostEvent(name.shown()), name.shown(), host_);
      }
    }
  }

  std::string Finish() const {
    return JsonText(Json{{"rows", rows_}, {"device", ListsOf(device_)}, {"host", ListsOf(host_)}});
  }

 private:
  void AddRows(std::uint32_t worker, const index::Plane& plane, const DeviceLines& lines) {
    const index::Index& index = run_.workers[worker].index();
    for (std::uint32_t r = plane.first_row;
         r - plane.first_row < plane.rows && r < index.rows().size(); ++r) {
      const index::Row& row = index.rows()[r];
      if (row.derived != 0 || row.kind == index::RowKind::kCounter) continue;
      if (lines.IsWork(index.Text(row.name))) rows_.push_back(run_.NumberOf(worker, r));
    }
  }

  const LoadedRun& run_;
  std::vector<std::uint32_t> rows_{};
  NamesByKind device_{}, host_{};
};

}  // namespace

std::string KindsOf(const LoadedRun& run) {
  KindReader reader(run);
  for (std::uint32_t worker = 0; worker < run.workers.size(); ++worker)
    for (std::size_t i = 0; i < run.workers[worker].index().planes().size(); ++i)
      reader.AddPlane(worker, i);
  return reader.Finish();
}

}  // namespace strobe::viewer
