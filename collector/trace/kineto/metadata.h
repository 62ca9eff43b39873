// What a trace file says about its processes and threads, beside their events.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "collector/trace/kineto/micros.h"
#include "collector/trace/kineto/read_report.h"
#include "collector/trace/kineto/trace_event.h"

namespace strobe::kineto {

// What the file says about a thread or stream.
struct ThreadInfo {
  std::string name{};
  std::optional<std::int64_t> sort_index{};
};

class Metadata {
 public:
  // By process and thread.
  using Threads = std::map<std::pair<std::string, std::string>, ThreadInfo>;

  // Counts in the report what is left out, because there is too much.
  explicit Metadata(ReadReport& report) : report_(report) {}

  // Adds an event of the phase 'M'.
  void Add(const TraceEvent& event);

  // The names of processes.
  const std::map<std::string, std::string>& processes() const { return processes_; }
  // Streams have names of their own, because the number of a device may also be that of a process.
  const Threads& threads() const { return threads_; }
  const Threads& streams() const { return streams_; }
  // What the file calls processes that are devices, such as "GPU 0" or "NPU".
  const std::map<std::string, std::string>& device_labels() const { return device_labels_; }
  // All else: name and text.
  const std::deque<std::pair<std::string, std::string>>& rest() const { return rest_; }
  // When the file's window begins, if it says so.
  const std::optional<Micros>& window_begin() const { return window_begin_; }

 private:
  // The most that it may take, and what an entry takes beside its texts.
  static constexpr std::size_t kMaxBytes = 4 << 20, kEntryBytes = 128;

  template <typename Map, typename Change>
  void Rename(Map& map, const typename Map::key_type& key, std::size_t key_bytes, std::size_t most,
              const Change& change);
  void NameThread(const std::pair<std::string, std::string>& key, std::string name, bool stream);

  ReadReport& report_;
  std::map<std::string, std::string> processes_, device_labels_;
  Threads threads_, streams_;
  std::deque<std::pair<std::string, std::string>> rest_;  // Its texts do not move.
  std::set<std::pair<std::string_view, std::string_view>> kept_;
  std::size_t bytes_ = 0;
  std::optional<Micros> window_begin_;
};

}  // namespace strobe::kineto
