// Writes an XPlane event by event, as bytes; names are kept once, as the format wants it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace strobe::xplane {

struct Ref {
  std::string_view text{};  // A string that is kept once per plane.
};
struct RefId {
  std::int64_t id = 0;  // The same, when StatId has been asked for it already.
};
using BuilderValue =
    std::variant<std::int64_t, std::uint64_t, double, std::string_view, Ref, RefId>;

// The type that XLA gives to a text argument: int64, else uint64, else double, else text kept once.
BuilderValue TypedValue(std::string_view text);

// Text that is no UTF-8 is written with U+FFFD in place of the bytes that are none.
class PlaneBuilder {
 public:
  explicit PlaneBuilder(std::string_view name, std::int64_t id = 0) : name_(name), id_(id) {}

  // Ids for names; the same for the same name.
  std::int64_t EventId(std::string_view name);
  std::int64_t StatId(std::string_view name);

  // The following events belong to this line. Offsets count from its time stamp.
  void BeginLine(std::int64_t id, std::string_view name, std::int64_t timestamp_ns);
  // Stats behind an event belong to it.
  void AddEvent(std::int64_t event_id, std::int64_t offset_ps, std::int64_t duration_ps);
  void AddEventStat(std::int64_t stat_id, const BuilderValue& value);
  void AddPlaneStat(std::string_view name, const BuilderValue& value);

  // One more field of an XSpace. Ends the building.
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
  std::string line_, event_, stat_;  // What is being built; empty when nothing is.
};

}  // namespace strobe::xplane
