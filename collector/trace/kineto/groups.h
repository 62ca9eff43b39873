// What groups of lines are, which only the whole file tells: devices of other kinds than GPUs, and
// which process launched the work of a device in a file that was merged of several.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "collector/trace/kineto/lines.h"

namespace strobe::kineto {

// Makes groups devices, and their lines streams, that are known as the host's while the file is
// read. `labels`: what the file calls processes that are devices. `devices`: their numbers.
void FindDevices(const Lines& lines, const std::map<std::string, std::string>& labels,
                 const std::set<std::string>& devices);

// Correlation ids are unique within a process. The name of the process that each group belongs to,
// if several processes of the file use the same ids; otherwise none.
struct Owners {
  struct Owner {
    std::string process{};  // Empty: it is not known which of them launched this device's work.
    std::string device{};   // The device's number within its process.
  };
  std::map<const Group*, Owner> of{};
  std::size_t unknown = 0;  // Devices.
};
Owners FindOwners(const std::vector<const Group*>& groups);

}  // namespace strobe::kineto
