// Writes JSON members as stats.
#pragma once
#include <optional>

#include "collector/kineto/event_bytes.h"
#include "collector/kineto/names.h"
#include "collector/kineto/trace_event.h"

namespace strobe::kineto {

// The value as an integer, also if it is a number in quotes.
std::optional<std::int64_t> IntegerOf(const JsonValue& value);

// A member becomes a stat of the same name: integers and other numbers as such, all else as text.
void AddStat(const Member& member, PlaneNames& names, EventBytes& event);
void AddTextStat(std::int64_t stat, std::string_view text, PlaneNames& names, EventBytes& event);
void AddTextStat(std::string_view name, std::string_view text, PlaneNames& names,
                 EventBytes& event);

}  // namespace strobe::kineto
