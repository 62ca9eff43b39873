// Traces that a test made, as the tally reads them.
#pragma once
#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "collector/trace/tally/tally.h"
#include "tests/fakes/made_index.h"

namespace strobe::tally {

struct MadeTrace {
  explicit MadeTrace(std::string xspace)
      : made(std::move(xspace)), derived(*xplane::Space::Read(made.index.derived())) {}

  Source source() const {
    return {.index = &made.index, .space = &made.space, .derived = &derived, .trace = made.trace};
  }

  index::MadeIndex made;
  xplane::Space derived;
};

// The row of a name; throws if there is none.
inline const TallyRow& RowNamed(const TallyTable& table, std::string_view name) {
  const auto row = std::ranges::find(table.rows, name, &TallyRow::name);
  if (row == table.rows.end()) throw std::runtime_error("there is no row " + std::string(name));
  return *row;
}

}  // namespace strobe::tally
