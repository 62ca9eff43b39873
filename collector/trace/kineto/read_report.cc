#include "collector/trace/kineto/read_report.h"

#include "common/base/strings.h"

namespace strobe::kineto {
namespace {

// "1 event", "2 events"
std::string Count(std::uint64_t number, std::string_view noun) {
  return StrCat(number, " ", noun, number == 1 ? "" : "s");
}

}  // namespace

std::vector<std::string> Warnings(const ReadReport& report) {
  std::vector<std::string> warnings;
  const auto add = [&](std::uint64_t number, std::string_view noun, std::string_view what) {
    if (number > 0) warnings.push_back(StrCat(Count(number, noun), what));
  };
  add(report.malformed, "event",
      StrCat(" could not be read: malformed JSON, ", Count(report.malformed_bytes, "byte"),
             report.malformed == 1 ? " from byte " : ", the first from byte ", report.malformed_at,
             " on"));
  add(report.too_large, "event", " could not be read: more than 2 MiB");
  add(report.no_phase, "object", " could not be read: not an event, it has no phase");
  add(report.bad_time, "event", " could not be read: no time, or an impossible one");
  add(report.unmatched_ends, "end",
      " of events could not be used: the beginning is not in the file");
  add(report.loose_flows, "end", " of arrows could not be used: no event of its thread is there");
  add(report.repaired, "event", " had bytes that JSON does not permit, which were replaced");
  add(report.unfinished, "event", " had no end, drawn until the end of the trace");
  add(report.negative, "event", " had a negative or unreadable duration, which was made 0");
  add(report.unowned_devices, "device",
      " cannot be joined with launches: several processes use the same correlation ids");
  add(report.cut_values, "value", " beside the events could not be kept, or not whole: too large");
  add(report.stray_bytes, "byte", " of the file could not be read: outside of every event");
  if (report.cut || report.compressed_cut) {
    const std::string shown =
        report.spans == 0 ? "no event came before"
                          : StrCat("the ", Count(report.spans, "event"),
                                   report.spans == 1 ? " before it was read and is shown"
                                                     : " before it were read and are shown");
    warnings.push_back(StrCat(report.cut ? "the file is cut: its end is missing, and "
                                         : "the compressed file is damaged or cut, and ",
                              shown, "; ", kCutRemedy));
  }
  return warnings;
}

}  // namespace strobe::kineto
