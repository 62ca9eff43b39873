// A trace file in Chrome's format that a test made, and what readers see of it.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "collector/trace/convert/chrome_trace.h"
#include "collector/trace/digest/compute_digest.h"
#include "collector/trace/kineto/trace_file.h"
#include "common/base/strings.h"
#include "tests/fakes/made_index.h"

namespace strobe {

struct JsonTrace {
  using Json = nlohmann::json;

  explicit JsonTrace(const std::string& file) {
    std::string_view rest = file;
    absl::StatusOr<std::string> read = kineto::ReadTraceFile(
        [&](std::span<char> room) -> absl::StatusOr<std::size_t> {
          const std::size_t size = std::min(room.size(), rest.size());
          std::memcpy(room.data(), rest.data(), size);
          rest.remove_prefix(size);
          return size;
        },
        report);
    EXPECT_TRUE(read.ok()) << read.status();
    if (read.ok()) xspace = *std::move(read);
    space = *xplane::Space::Read(xspace);
  }
  explicit JsonTrace(const Json& file) : JsonTrace(file.dump()) {}
  JsonTrace(const JsonTrace&) = delete;
  JsonTrace& operator=(const JsonTrace&) = delete;
  // A file with these events.
  static JsonTrace Of(const std::vector<Json>& events) {
    return JsonTrace(Json{{"traceEvents", events}});
  }

  // The arrows as the viewer draws them, "from > to", sorted.
  std::vector<std::string> Arrows() const {
    const index::MadeIndex made(xspace);
    EXPECT_TRUE(made.status.ok()) << made.status;
    std::vector<std::string> arrows;
    const auto name = [&](const index::Track& track, std::uint32_t ordinal) {
      return std::string(made.index.Text(made.index.EntryAt(track, ordinal)->name));
    };
    for (const index::Track& track : made.index.tracks()) {
      made.index.ForEachLink(track, false, 0, 1u << 31, [&](const index::LinkTarget& link) {
        arrows.push_back(StrCat(name(track, link.ordinal), " > ",
                                name(made.index.tracks()[link.track], link.other)));
      });
    }
    std::sort(arrows.begin(), arrows.end());
    return arrows;
  }

  // The arrows as Chrome's format tells them. Each id is that of one arrow; its ends are at the
  // begins of events.
  std::vector<std::string> ExportedArrows() const {
    std::string text;
    const convert::WorkerTrace trace{.worker = "w", .space = *xplane::Space::Read(xspace)};
    EXPECT_TRUE(convert::WriteChromeTrace({&trace, 1}, [&](std::string_view piece) {
                  text += piece;
                  return absl::OkStatus();
                }).ok());
    const Json written = Json::parse(text)["traceEvents"];
    // By process, thread and time. Of events that begin together, the one before its arrows.
    std::map<std::string, std::map<std::string, std::string>> ends;  // By id and phase.
    std::string before;
    for (const Json& event : written) {
      if (event["ph"] == "X") before = event["name"];
      if (event["ph"] != "s" && event["ph"] != "f") continue;
      EXPECT_TRUE(ends[event["id"]].emplace(event["ph"], before).second) << "two of one kind";
    }
    std::vector<std::string> arrows;
    for (auto& [id, phases] : ends) {
      if (phases.contains("s") && phases.contains("f"))
        arrows.push_back(StrCat(phases["s"], " > ", phases["f"]));
    }
    std::sort(arrows.begin(), arrows.end());
    return arrows;
  }

  std::vector<std::string> PlaneNames() const {
    std::vector<std::string> names;
    for (const xplane::Plane& plane : space.planes) {
      if (plane.events() > 0) names.emplace_back(plane.name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::vector<std::string> LineNames() const {
    std::vector<std::string> names;
    for (const xplane::Plane& plane : space.planes) {
      for (const xplane::Line& line : plane.lines)
        names.push_back(StrCat(plane.name, " | ", line.name));
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  digest::Digest MakeDigest() const { return *digest::ComputeDigest(space, "w"); }

  std::string xspace{};
  kineto::ReadReport report{};
  xplane::Space space{};
};

// An event of Kineto's files. `args` is what it says beside its times.
inline nlohmann::json SpanEvent(std::string_view category, std::string_view name,
                                const nlohmann::json& pid, const nlohmann::json& tid, double ts,
                                double dur, nlohmann::json args = nlohmann::json::object()) {
  return {{"ph", "X"},  {"cat", category}, {"name", name}, {"pid", pid},
          {"tid", tid}, {"ts", ts},        {"dur", dur},   {"args", std::move(args)}};
}
inline nlohmann::json FlowEvent(std::string_view phase, const nlohmann::json& id,
                                const nlohmann::json& pid, const nlohmann::json& tid, double ts,
                                std::string_view category = "ac2g") {
  nlohmann::json event = {{"ph", phase}, {"id", id},        {"pid", pid},      {"tid", tid},
                          {"ts", ts},    {"cat", category}, {"name", category}};
  if (phase == "f") event["bp"] = "e";
  return event;
}

}  // namespace strobe
