#include "sidecar/source/agent/flight_recorder.h"

#include <chrono>
#include <cstddef>
#include <set>
#include <string>
#include <utility>

#include "common/base/guard.h"
#include "sidecar/source/agent/ring_files.h"
#include "sidecar/source/base/announcements.h"

namespace strobe::source {
namespace {

constexpr auto kIdle = wire::Wisher::kIdle;

}  // namespace

FlightRecorder::FlightRecorder(const AgentDirectory& directory, std::uint32_t level,
                               std::optional<IdleDevices> devices)
    : directory_(directory),
      level_(level),
      devices_(std::move(devices)),
      thread_([this] { RunThread("flight_recorder", [this] { Run(); }); }) {}

FlightRecorder::~FlightRecorder() {
  stop_.Cancel();
  thread_.join();
  directory_.Order(NoOrders());
  Wish(0);
}

void FlightRecorder::Wish(std::uint32_t level) {
  std::set<std::string> announced;
  if (devices_ && level > 0) {
    for (const Announcement& process : ReadAnnouncements(directory_.path()))
      announced.insert(process.process());
  }
  for (const std::string& path : RingFiles(directory_.path())) {
    OpenedRings opened = OpenRings(path);
    if (opened.error != wire::RingFileError::kNone || directory_.RemoveIfDead(opened)) continue;
    const wire::RingFile& file = opened.rings.file;
    const wire::FileHeader& header = *file.header();
    if (header.wishes[static_cast<std::size_t>(kIdle)].load() != level) file.Wish(kIdle, level);
    if (!devices_) continue;
    if (level == 0)
      IdleDevices::Release(file);
    else
      devices_->Attend(file, announced.contains(ProcessName(header.pid, header.process_began)));
  }
  if (devices_) devices_->ForgetOthers();
}

void FlightRecorder::Run() {
  wire::Orders orders = NoOrders();
  orders.wishes[static_cast<std::size_t>(kIdle)] = level_;
  directory_.Order(orders);  // A capture replaces the orders and restores them at its end.
  do {
    Wish(level_);
  } while (!stop_.WaitFor(std::chrono::seconds(1)));
}

}  // namespace strobe::source
