// Encodes an XPlane event by event. Every name is stored once per plane, as the format requires.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace strobe::xplane {

struct Ref {
  // A string that is stored once per plane.
  std::string_view text{};
};
struct RefId {
  // A string that is stored once per plane, by its id from StatId.
  std::int64_t id = 0;
};
using BuilderValue =
    std::variant<std::int64_t, std::uint64_t, double, std::string_view, Ref, RefId>;

// Converts an argument to the type that XLA uses: int64, else uint64, else double, else a Ref.
BuilderValue TypedValue(std::string_view text);

// Encodes one plane. Invalid bytes in text are replaced by U+FFFD.
class PlaneBuilder {
 public:
  explicit PlaneBuilder(std::string_view name, std::int64_t id = 0) : name_(name), id_(id) {}

  // Return the id of a name; equal names have equal ids.
  std::int64_t EventId(std::string_view name);
  std::int64_t StatId(std::string_view name);

  // Begins a line, to which the following events belong. Their offsets count from its time stamp.
  void BeginLine(std::int64_t id, std::string_view name, std::int64_t timestamp_ns);
  // Adds an event, to which the following event stats belong.
  void AddEvent(std::int64_t event_id, std::int64_t offset_ps, std::int64_t duration_ps);
  void AddEventStat(std::int64_t stat_id, const BuilderValue& value);
  void AddPlaneStat(std::string_view name, const BuilderValue& value);

  // Returns the plane as a serialized field of an XSpace. Call it once, at the end.
  std::string Encode();

 private:
  void EndEvent();
  void EndLine();
  void AppendStat(std::uint32_t field, std::int64_t stat_id, const BuilderValue& value,
                  std::string& to);

  const std::string name_;
  const std::int64_t id_;
  std::map<std::string, std::int64_t, std::less<>> events_, stats_;
  std::string lines_, plane_stats_;
  // The line, event and stat that are being built; empty if there is none.
  std::string line_, event_, stat_;
};

}  // namespace strobe::xplane
