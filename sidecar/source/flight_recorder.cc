#include "sidecar/source/flight_recorder.h"

#include <chrono>
#include <set>
#include <utility>

#include "collector/base/guard.h"
#include "sidecar/source/ring_files.h"
#include "sidecar/wire/ring_file.h"

namespace strobe {

FlightRecorder::FlightRecorder(std::string directory, std::uint32_t level)
    : directory_(std::move(directory)), level_(level), thread_([this] { RunThread("flight_recorder", [this] { Run(); }); }) {}

FlightRecorder::~FlightRecorder() {
  stop_.Cancel();
  thread_.join();
  for (const std::string& path : RingFiles(directory_)) {
    if (const wire::RingFile file = wire::RingFile::Open(path)) file.header()->control.store(0);
  }
}

void FlightRecorder::Run() {
  std::set<std::string> known;  // Captures have their own wishes, and put back ours.
  do {
    std::set<std::string> present;
    for (const std::string& path : RingFiles(directory_)) {
      if (!known.contains(path)) {
        if (const wire::RingFile file = wire::RingFile::Open(path))
          file.header()->control.store(level_);
      }
      present.insert(path);
    }
    known = std::move(present);
  } while (!stop_.WaitFor(std::chrono::seconds(1)));
}

}  // namespace strobe
