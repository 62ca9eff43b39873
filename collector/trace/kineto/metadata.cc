#include "collector/trace/kineto/metadata.h"

#include <type_traits>

#include "collector/trace/kineto/stats.h"
#include "common/base/strings.h"

namespace strobe::kineto {

void Metadata::Add(const TraceEvent& event) {
  const std::optional<Micros> time = ParseMicros(event.ts.text);
  // Kineto writes the beginning of its window. Others write 0.
  if (time && time->us > 0 && event.name == "process_name" && !window_begin_) window_begin_ = time;
  const Member* arg = event.args.empty() ? nullptr : &event.args.front();
  for (const Member& member : event.args) {
    if (!member.key.empty() && event.name.ends_with(member.key))
      arg = &member;  // "thread_name": its "name".
  }
  std::string text = arg == nullptr ? "" : std::string(arg->value.text);
  const std::pair key(std::string(event.pid), std::string(event.tid));
  const std::size_t key_bytes = event.pid.size() + event.tid.size() + kEntryBytes;
  if (event.name == "process_name") {
    // Kineto gives a process and a device with the same number the same name.
    return Rename(processes_, key.first, key_bytes, text.size(),
                  [&](std::string& name) { name = std::move(text); });
  }
  if (event.name == "thread_name") {
    const bool stream = text.starts_with("stream ");
    return Rename(stream ? streams_ : threads_, key, key_bytes, text.size(),
                  [&](ThreadInfo&) { NameThread(key, std::move(text), stream); });
  }
  if (event.name == "thread_sort_index" && arg != nullptr)
    Rename(threads_, key, key_bytes, 0,
           [&](ThreadInfo& thread) { thread.sort_index = IntegerOf(arg->value); });
  // The rest is kept as it is, once.
  std::string value = StrCat("pid ", event.pid, event.tid.empty() ? "" : " tid ", event.tid);
  for (const Member& member : event.args) value += StrCat(" ", member.key, "=", member.value.text);
  if (kept_.contains({event.name, value})) return;
  const std::size_t bytes = event.name.size() + value.size() + kEntryBytes;
  if (bytes_ + bytes > kMaxBytes) {
    ++report_.cut_values;
    return;
  }
  bytes_ += bytes;
  if (event.name == "process_labels" && !text.empty() && !text.starts_with("CPU"))
    device_labels_.try_emplace(key.first, text);
  kept_.insert(rest_.emplace_back(event.name, std::move(value)));
}

// Calls `change(value)` for the value of the process or thread, if there is room for `most` bytes
// of text and for what is new. A name that is told again takes no more memory.
template <typename Map, typename Change>
void Metadata::Rename(Map& map, const typename Map::key_type& key, std::size_t key_bytes,
                      std::size_t most, const Change& change) {
  const auto size_of = [](const auto& value) {
    if constexpr (std::is_same_v<typename Map::mapped_type, std::string>)
      return value.size();
    else
      return value.name.size();
  };
  const auto found = map.find(key);
  const std::size_t before = found == map.end() ? 0 : size_of(found->second);
  const std::size_t others = bytes_ - before + (found == map.end() ? key_bytes : 0);
  if (others + most > kMaxBytes) {
    ++report_.cut_values;
    return;
  }
  typename Map::mapped_type& value = map[key];
  change(value);
  bytes_ = others + size_of(value);
}

// Kineto may tell two names of a thread: its own, and that of the thread which asked Kineto, such
// as the main thread or, in a capture, Strobe's, which runs no operators.
void Metadata::NameThread(const std::pair<std::string, std::string>& key, std::string name,
                          bool stream) {
  if (stream) {
    streams_[key].name = std::move(name);
    return;
  }
  const auto in_brackets = [](std::string_view text) {
    const std::size_t open = text.find(" (");
    return open == std::string_view::npos ? std::string_view() : text.substr(open);
  };
  const auto main = threads_.find({key.first, key.first});
  const bool is_ours = in_brackets(name).starts_with(" (strobe-");
  const bool is_mains = key.first != key.second && main != threads_.end() &&
                        !in_brackets(name).empty() &&
                        in_brackets(main->second.name) == in_brackets(name);
  ThreadInfo& thread = threads_[key];
  if ((is_ours || is_mains) && !thread.name.empty()) return;
  if (is_ours) name.resize(name.size() - in_brackets(name).size());
  thread.name = std::move(name);
}

}  // namespace strobe::kineto
