#include "sidecar/source/flight_recorder.h"

#include <chrono>
#include <cstddef>

#include "common/base/guard.h"
#include "sidecar/source/ring_files.h"

namespace strobe {
namespace {

constexpr auto kIdle = wire::Wisher::kIdle;

}  // namespace

FlightRecorder::FlightRecorder(const AgentDirectory& directory, std::uint32_t level)
    : directory_(directory),
      level_(level),
      thread_([this] { RunThread("flight_recorder", [this] { Run(); }); }) {}

FlightRecorder::~FlightRecorder() {
  stop_.Cancel();
  thread_.join();
  directory_.Order(NoOrders());
  Wish(0);
}

void FlightRecorder::Wish(std::uint32_t level) const {
  for (const std::string& path : RingFiles(directory_.path())) {
    OpenedRings opened = OpenRings(path);
    if (opened.error != wire::RingFileError::kNone || directory_.RemoveIfDead(opened)) continue;
    const wire::RingFile& file = opened.rings.file;
    if (file.header()->wishes[static_cast<std::size_t>(kIdle)].load() != level)
      file.Wish(kIdle, level);
  }
}

void FlightRecorder::Run() {
  wire::Orders orders = NoOrders();
  orders.wishes[static_cast<std::size_t>(kIdle)] = level_;
  directory_.Order(orders);  // A capture replaces the orders and restores them at its end.
  do {
    Wish(level_);
  } while (!stop_.WaitFor(std::chrono::seconds(1)));
}

}  // namespace strobe
