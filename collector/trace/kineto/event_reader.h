// Parses the JSON objects of events with simdjson.
#pragma once
#include <simdjson.h>

#include <functional>
#include <span>
#include <string>

#include "collector/trace/kineto/trace_event.h"

namespace strobe::kineto {

class EventReader {
 public:
  // Parses the objects of an array `[...]` until one is malformed and calls `visit(event)` for each
  // one before. Returns their number. `json` is followed by FileWindow::kPadding bytes that may
  // be read.
  template <typename Visit>
  std::size_t ReadArray(std::string_view json, const Visit& visit) {
    std::size_t read = 0;
    simdjson::ondemand::document document;
    simdjson::ondemand::array array;
    if (!Begin(json, document) || document.get_array().get(array) != simdjson::SUCCESS) return 0;
    for (auto element : array) {
      simdjson::ondemand::object object;
      if (element.get_object().get(object) != simdjson::SUCCESS || !ReadObject(object)) break;
      if (unescaped_) ++repaired_;
      visit(event_);
      ++read;
    }
    return read;
  }

  // Parses one object. Returns nullptr if it is malformed. Bytes that JSON does not permit,
  // control characters and invalid UTF-8 in texts and a comma behind the last member, are replaced
  // if it cannot be parsed otherwise.
  // `json` is padded as for ReadArray.
  const TraceEvent* ReadOne(std::string_view json);

  // Objects with bytes that were replaced, or with escapes that mean nothing and were kept as they
  // are.
  std::uint64_t repaired() const { return repaired_; }

 private:
  bool Begin(std::string_view json, simdjson::ondemand::document& document);
  const TraceEvent* ReadWhole(std::string_view json);
  bool ReadObject(simdjson::ondemand::object& object);
  bool ReadField(simdjson::ondemand::field& field);
  bool SetField(const Member& member);
  bool ReadMember(simdjson::ondemand::field& field, Member& member);
  bool ReadArgs(simdjson::ondemand::value& value);
  bool Unescape(simdjson::ondemand::value& value, JsonValue& read);
  void SetNested(std::string_view json, JsonValue& read);

  simdjson::ondemand::parser parser_{};
  TraceEvent event_{};
  bool has_escapes_ = false;
  bool unescaped_ = false;  // The event has escapes that mean nothing.
  std::string copy_{};
  // The event's lists and objects whose white space was changed, and how large they can become.
  std::string spaced_{};
  std::size_t most_spaced_ = 0;
  std::uint64_t repaired_ = 0;
};

}  // namespace strobe::kineto
