#include "collector/trace/kineto/event_reader.h"

#include <algorithm>
#include <cstring>

#include "collector/trace/kineto/file_window.h"
#include "collector/trace/kineto/json_space.h"
#include "common/text/safe_text.h"

namespace strobe::kineto {
namespace {

namespace ondemand = simdjson::ondemand;

std::string_view TrimEnd(std::string_view text) {
  while (!text.empty() && IsJsonSpace(text.back())) text.remove_suffix(1);
  return text;
}

// The key that stands before a value. The parser has checked that between the two are only a colon
// and white space.
std::string_view KeyBefore(const char* key, const char* value) {
  const char* end = value - 1;
  while (*end != ':') --end;
  while (*end != '"') --end;
  return {key, static_cast<std::size_t>(end - key)};
}

// Replaces what JSON does not permit, byte by byte, so that the size stays the same: in texts, and
// a comma behind the last member.
void Repair(std::string& json) {
  bool in_text = false, escaped = false;
  std::size_t comma = std::string::npos;  // Nothing has followed it yet.
  for (std::size_t i = 0; i < json.size();) {
    const std::size_t size = Utf8CharacterSize(std::string_view(json).substr(i));
    if (size == 0)
      json[i] = '?';
    else if (static_cast<unsigned char>(json[i]) < 0x20)
      json[i] = ' ';
    const char c = json[i];
    i += std::max<std::size_t>(size, 1);
    if (in_text) {
      in_text = escaped || c != '"';
      escaped = !escaped && c == '\\';
      continue;
    }
    if (comma != std::string::npos && (c == '}' || c == ']')) json[comma] = ' ';
    if (c != ' ') comma = c == ',' ? i - 1 : std::string::npos;
    in_text = c == '"';
  }
}

}  // namespace

bool EventReader::Begin(std::string_view json, ondemand::document& document) {
  has_escapes_ = std::memchr(json.data(), '\\', json.size()) != nullptr;
  most_spaced_ = 2 * json.size();
  const simdjson::padded_string_view padded(json.data(), json.size(),
                                            json.size() + simdjson::SIMDJSON_PADDING);
  return parser_.iterate(padded).get(document) == simdjson::SUCCESS;
}

bool EventReader::Unescape(ondemand::value& value, JsonValue& read) {
  // A text such as half of a surrogate pair stays as it is in the file.
  if (value.get_string().get(read.text) != simdjson::SUCCESS) unescaped_ = true;
  return true;
}

// Readers of lists and objects meet one kind of white space, whatever the file has.
void EventReader::SetNested(std::string_view json, JsonValue& read) {
  read = {JsonValue::Kind::kNested, json};
  if (IsEvenlySpaced(json)) return;
  // All values of one event fit, so that the texts do not move.
  if (spaced_.capacity() < most_spaced_) spaced_.reserve(most_spaced_);
  const std::size_t begin = spaced_.size();
  AppendEvenlySpaced(json, spaced_);
  read.text = std::string_view(spaced_).substr(begin);
}

bool EventReader::ReadMember(ondemand::field& field, Member& member) {
  ondemand::value& value = field.value();
  const std::string_view token = value.raw_json_token();
  member.key = KeyBefore(field.key().raw(), token.data());
  JsonValue& read = member.value;
  switch (token.front()) {
    case '"': {
      const std::string_view text = TrimEnd(token);
      if (text.size() < 2 || text.back() != '"') return false;
      read = {JsonValue::Kind::kText, text.substr(1, text.size() - 2)};
      const bool escapes =
          has_escapes_ && std::memchr(read.text.data(), '\\', read.text.size()) != nullptr;
      return !escapes || Unescape(value, read);
    }
    case '[':
    case '{': {
      std::string_view json;
      if (token.front() == '{') {
        ondemand::object object;
        if (value.get_object().get(object) != simdjson::SUCCESS ||
            object.raw_json().get(json) != simdjson::SUCCESS)
          return false;
      } else {
        ondemand::array array;
        if (value.get_array().get(array) != simdjson::SUCCESS ||
            array.raw_json().get(json) != simdjson::SUCCESS)
          return false;
      }
      SetNested(TrimEnd(json), read);
      return true;
    }
    case ']':
    case '}':
    case ',':
    case ':':
      return false;
    default:
      read = {JsonValue::Kind::kScalar, TrimEnd(token)};
      return true;
  }
}

bool EventReader::ReadArgs(ondemand::value& value) {
  const std::string_view token = value.raw_json_token();
  ondemand::object object;
  if (token.front() != '{' || value.get_object().get(object) != simdjson::SUCCESS) return false;
  for (auto result : object) {
    if (result.error() != simdjson::SUCCESS) return false;
    // Read in place, because copying what was just written makes the processor wait.
    ondemand::field&& field = std::move(result).value_unsafe();
    if (!ReadMember(field, event_.args.emplace_back())) return false;
  }
  return true;
}

bool EventReader::ReadField(ondemand::field& field) {
  const char* key = field.key().raw();
  if (std::memcmp(key, "args\"", 5) == 0 && field.value().raw_json_token().front() == '{') {
    event_.args.clear();  // An object may have two members of one name. The last one counts.
    return ReadArgs(field.value());
  }
  Member member;
  if (!ReadMember(field, member)) return false;
  if (!SetField(member)) event_.other_members.push_back(member);
  return true;
}

// False if the event has no field for the member.
bool EventReader::SetField(const Member& member) {
  const std::string_view key = member.key, text = member.value.text;
  if (key == "ph") {
    event_.phase = text.empty() ? '\0' : text.front();
  } else if (key == "ts") {
    event_.ts = member.value;
  } else if (key == "id") {
    event_.id = member.value;
  } else if (key == "cat") {
    event_.category = text;
  } else if (key == "pid") {
    event_.pid = text;
  } else if (key == "tid") {
    event_.tid = text;
  } else if (key == "dur") {
    event_.dur = member.value;
  } else if (key == "name") {
    event_.name = text;
  } else {
    return false;
  }
  return true;
}

bool EventReader::ReadObject(ondemand::object& object) {
  event_.Clear();
  spaced_.clear();
  unescaped_ = false;
  for (auto result : object) {
    if (result.error() != simdjson::SUCCESS) return false;
    ondemand::field&& field = std::move(result).value_unsafe();
    if (!ReadField(field)) return false;
  }
  return true;
}

const TraceEvent* EventReader::ReadWhole(std::string_view json) {
  ondemand::document document;
  ondemand::object object;
  if (!Begin(json, document) || document.get_object().get(object) != simdjson::SUCCESS)
    return nullptr;
  return ReadObject(object) ? &event_ : nullptr;
}

const TraceEvent* EventReader::ReadOne(std::string_view json) {
  const TraceEvent* event = ReadWhole(json);
  bool repaired = unescaped_;
  if (event == nullptr) {
    copy_.assign(json);
    Repair(copy_);
    copy_.resize(json.size() + FileWindow::kPadding, ' ');
    event = ReadWhole(std::string_view(copy_).substr(0, json.size()));
    repaired = true;
  }
  if (event != nullptr && repaired) ++repaired_;
  return event;
}

}  // namespace strobe::kineto
