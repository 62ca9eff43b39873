// What Kineto tells about the GPUs, as stats of their planes.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/trace/kineto/names.h"

namespace strobe::kineto {

// Reads the member "deviceProperties", a list of objects. By device number: XLA's name of the stat
// and its value. Empty if the list cannot be read.
std::map<std::string, std::vector<std::pair<std::string, std::string>>> ReadDeviceProperties(
    std::string_view json);

// Encodes a stat of a plane: an integer if the value is one, otherwise text.
void AppendPlaneStat(std::string_view name, std::string_view value, PlaneNames& names,
                     std::string& to);

}  // namespace strobe::kineto
