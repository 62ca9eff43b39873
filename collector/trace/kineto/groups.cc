#include "collector/trace/kineto/groups.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "collector/trace/kineto/device_work.h"
#include "common/base/strings.h"

namespace strobe::kineto {
namespace {

bool Has(const Line& line, DeviceSign sign) {
  return (line.signs >> static_cast<unsigned>(sign) & 1) != 0;
}

// What all lines of a group tell.
struct GroupSigns {
  std::uint32_t signs = 0;
  std::vector<Line*> lines{};
};

// "NPU 2": "NPU"; "GPU" for anything that is no such word.
std::string KindOfLabel(std::string_view label) {
  const std::string_view word = label.substr(0, label.find_first_of(" :0123456789"));
  const bool letters =
      !word.empty() && word.size() <= 8 && std::all_of(word.begin(), word.end(), [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
      });
  return letters ? std::string(word) : "GPU";
}

void MakeDevice(GroupSigns& group, std::string_view kind, DeviceSign sign) {
  for (Line* line : group.lines) {
    line->group->device = true;
    line->group->kind = kind;
    if (line->kind == LineKind::kThread && Has(*line, sign)) line->kind = LineKind::kStream;
  }
}

constexpr std::string_view kDigits = "0123456789";

// The parts of a process's id in a merged file: "[TP00] 900" is 900 of "[TP00] ".
struct PidParts {
  std::string_view label{}, number{};
};
PidParts PartsInFront(std::string_view pid) {
  const std::size_t last = pid.find_last_not_of(kDigits);
  const std::size_t label = last == std::string_view::npos ? 0 : last + 1;
  return {pid.substr(0, label), pid.substr(label)};
}
PidParts PartsBehind(std::string_view pid) {
  const std::size_t label = std::min(pid.find_first_not_of(kDigits), pid.size());
  return {pid.substr(label), pid.substr(0, label)};
}

// "[TP00] ": "TP00".
std::string NameOfLabel(std::string_view label) {
  constexpr std::string_view kAround = " []()_-:./";
  const std::size_t first = label.find_first_not_of(kAround);
  if (first == std::string_view::npos) return "";
  return std::string(label.substr(first, label.find_last_not_of(kAround) + 1 - first));
}

std::optional<std::uint64_t> NumberOf(std::string_view pid) {
  std::uint64_t number = 0;
  const auto read = std::from_chars(pid.data(), pid.data() + pid.size(), number);
  const bool whole = read.ec == std::errc() && read.ptr == pid.data() + pid.size();
  return whole ? std::optional(number) : std::nullopt;
}

// How well the launches of a process fit the work of a device: of the ids that both have, how many
// belong to work that began after its launch.
struct Fit {
  std::size_t common = 0, later = 0;
};
Fit FitOf(const IdSample& launches, const IdSample& work) {
  Fit fit;
  for (const auto& [hash, begin_ps] : work.begins()) {
    const auto launch = launches.begins().find(hash);
    if (launch == launches.begins().end()) continue;
    ++fit.common;
    if (begin_ps >= launch->second) ++fit.later;
  }
  return fit;
}

class OwnerFinder {
  using Parts = PidParts (*)(std::string_view);

 public:
  explicit OwnerFinder(const std::vector<const Group*>& groups) {
    for (const Group* group : groups) {
      if (group->launches.empty()) continue;
      (group->device ? devices_ : hosts_).push_back(group);
    }
    const auto by_pid = [](const Group* a, const Group* b) { return a->pid < b->pid; };
    std::sort(hosts_.begin(), hosts_.end(), by_pid);
    for (const Parts parts : {&PartsInFront, &PartsBehind}) {
      std::set<std::string_view> labels;
      for (const Group* host : hosts_) labels.insert(parts(host->pid).label);
      if (parts_ == nullptr && labels.size() == hosts_.size()) parts_ = parts;
    }
  }

  // Do two processes use the same ids?
  bool IdsRepeat() const {
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (FitOf(hosts_[i]->launches, hosts_[j]->launches).common > 0) return true;
      }
    }
    return false;
  }

  Owners Find(const std::vector<const Group*>& groups) const {
    Owners owners;
    for (const Group* group : groups) {
      const Group* const host = OwnerOf(*group);
      if (host != nullptr) {
        owners.of[group] = {NameOf(*host), NumberWithin(*group, *host)};
      } else if (group->device && !Fitting(*group).empty()) {
        owners.of[group] = {"", group->pid};
        ++owners.unknown;
      }
    }
    return owners;
  }

 private:
  // The processes that use ids of the group.
  std::vector<const Group*> Fitting(const Group& group) const {
    std::vector<const Group*> fitting;
    for (const Group* host : hosts_) {
      if (FitOf(host->launches, group.launches).common > 0) fitting.push_back(host);
    }
    return fitting;
  }

  const Group* OwnerOf(const Group& group) const {
    if (std::find(hosts_.begin(), hosts_.end(), &group) != hosts_.end()) return &group;
    if (const Group* host = ByLabel(group.pid)) return host;
    const std::vector<const Group*> fitting = Fitting(group);
    if (fitting.size() == 1) return fitting.front();
    if (!group.device || fitting.empty()) return nullptr;
    if (const Group* host = ByTimes(group, fitting)) return host;
    return ByNumber(group.pid);
  }

  // The process with the same label.
  const Group* ByLabel(std::string_view pid) const {
    if (parts_ == nullptr) return nullptr;
    const std::string_view label = parts_(pid).label;
    const auto found = std::find_if(hosts_.begin(), hosts_.end(), [&](const Group* host) {
      return parts_(host->pid).label == label;
    });
    return found == hosts_.end() ? nullptr : *found;
  }

  // Work does not begin before its launch: the process of which this holds clearly best.
  static const Group* ByTimes(const Group& device, const std::vector<const Group*>& hosts) {
    const Group* best = nullptr;
    double most = 0, second = 0;
    for (const Group* host : hosts) {
      const Fit fit = FitOf(host->launches, device.launches);
      const double share = static_cast<double>(fit.later) / static_cast<double>(fit.common);
      if (share > most) {
        second = most;
        most = share;
        best = host;
      } else {
        second = std::max(second, share);
      }
    }
    constexpr double kClearly = 0.2, kNearlyAll = 0.9;
    return most >= kNearlyAll && most - second >= kClearly ? best : nullptr;
  }

  // Tools that merge files add the same large number to all ids of a rank, so that a rank's devices
  // come right before its process.
  const Group* ByNumber(std::string_view pid) const {
    const std::optional<std::uint64_t> number = NumberOf(pid);
    if (!number || devices_.size() % hosts_.size() != 0) return nullptr;
    std::map<std::uint64_t, const Group*> hosts;
    for (const Group* host : hosts_) {
      if (const auto of_host = NumberOf(host->pid)) hosts[*of_host] = host;
    }
    if (hosts.size() != hosts_.size()) return nullptr;
    std::map<const Group*, std::size_t> devices;
    for (const Group* device : devices_) {
      const auto of_device = NumberOf(device->pid);
      const auto next = of_device ? hosts.lower_bound(*of_device) : hosts.end();
      if (next == hosts.end()) return nullptr;
      ++devices[next->second];
    }
    for (const Group* host : hosts_) {
      if (devices[host] != devices_.size() / hosts_.size()) return nullptr;
    }
    return hosts.lower_bound(*number)->second;
  }

  std::string NameOf(const Group& host) const {
    const std::string label = parts_ == nullptr ? "" : NameOfLabel(parts_(host.pid).label);
    return label.empty() ? StrCat("pid ", host.pid) : label;
  }

  // The number of a device without its label.
  std::string NumberWithin(const Group& group, const Group& host) const {
    if (parts_ == nullptr || parts_(group.pid).label != parts_(host.pid).label) return group.pid;
    const std::string_view number = parts_(group.pid).number;
    return number.empty() ? group.pid : std::string(number);
  }

  Parts parts_ = nullptr;  // By which the processes have different labels; null: by none.
  std::vector<const Group*> hosts_, devices_;  // With correlation ids only.
};

}  // namespace

void FindDevices(const Lines& lines, const std::map<std::string, std::string>& labels,
                 const std::set<std::string>& devices) {
  std::map<Group*, GroupSigns> groups;
  for (const std::unique_ptr<Line>& line : lines.all()) {
    if (line->count == 0 || line->group->device) continue;
    GroupSigns& group = groups[line->group];
    group.signs |= line->signs;
    group.lines.push_back(line.get());
  }
  const auto tells = [](const GroupSigns& group, DeviceSign sign) {
    return (group.signs >> static_cast<unsigned>(sign) & 1) != 0;
  };
  std::vector<std::string> npus;
  for (auto& [group, signs] : groups) {
    if (tells(signs, DeviceSign::kHost)) continue;
    const auto label = labels.find(group->pid);
    if (tells(signs, DeviceSign::kTask)) {
      MakeDevice(signs, "NPU", DeviceSign::kTask);
      npus.push_back(group->pid);
    } else if (tells(signs, DeviceSign::kNamesDevice) &&
               (label != labels.end() || devices.contains(group->pid))) {
      MakeDevice(signs, label == labels.end() ? "GPU" : KindOfLabel(label->second),
                 DeviceSign::kNamesDevice);
    }
  }
  // The collectives of the one NPU of a rank are on lines of another process.
  if (npus.size() != 1) return;
  for (auto& [group, signs] : groups) {
    if (group->device || !tells(signs, DeviceSign::kCollective) || tells(signs, DeviceSign::kHost))
      continue;
    MakeDevice(signs, "NPU", DeviceSign::kCollective);
    group->plane_of = npus.front();
  }
}

Owners FindOwners(const std::vector<const Group*>& groups) {
  const OwnerFinder finder(groups);
  return finder.IdsRepeat() ? finder.Find(groups) : Owners();
}

}  // namespace strobe::kineto
