// Writes JSON members as stats.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "collector/trace/kineto/event_bytes.h"
#include "collector/trace/kineto/names.h"
#include "collector/trace/kineto/trace_event.h"

namespace strobe::kineto {

// The value as an integer, also if it is a number in quotes, or written as "3.0".
std::optional<std::int64_t> IntegerOf(const JsonValue& value);
// The natural numbers in "[1, 2]", a list or a text, with any white space; nullopt if there is
// anything else, or more than `most`.
std::optional<std::vector<std::uint64_t>> NaturalsIn(std::string_view list, std::size_t most);

// A member becomes a stat of the same name: integers and other numbers as such, all else as text.
void AddStat(const Member& member, PlaneNames& names, EventBytes& event);
// Adds the members of `from` that have no field there, and its id; not those that describe arrows.
void AddOtherMembers(const TraceEvent& from, PlaneNames& names, EventBytes& event);
void AddTextStat(std::int64_t stat, std::string_view text, PlaneNames& names, EventBytes& event);
void AddTextStat(std::string_view name, std::string_view text, PlaneNames& names,
                 EventBytes& event);

}  // namespace strobe::kineto
