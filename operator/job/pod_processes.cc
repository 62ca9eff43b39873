#include "operator/job/pod_processes.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>
#include <string_view>

#include "capture/accelerators.h"
#include "operator/base/json_members.h"

namespace strobe::kube {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxProcesses = 1024;

std::size_t NumberOf(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number <= kMaxProcesses ? number : 0;
}

// How many accelerators the container may use.
std::size_t AcceleratorsOf(const Json& container) {
  const Json& limits = Member(Member(container, "resources"), "limits");
  if (!limits.is_object()) return 0;
  std::size_t count = 0;
  for (const auto& [resource, quantity] : limits.items()) {
    if (FindAccelerator(resource) == nullptr) continue;
    if (quantity.is_number_unsigned())
      count += std::min(quantity.get<std::size_t>(), kMaxProcesses);
    if (quantity.is_string()) count += NumberOf(quantity.get_ref<const std::string&>());
  }
  return count;
}

std::size_t Meaning(std::string_view value, const Json& container) {
  if (value == "gpu" || value == "auto") return AcceleratorsOf(container);
  return NumberOf(value);
}

// Command and arguments, separated by line breaks. A shell's script is one argument.
std::string CommandLine(const Json& container) {
  std::string line;
  for (const char* list : {"command", "args"}) {
    const Json& words = Member(container, list);
    if (!words.is_array()) continue;
    for (const Json& word : words) {
      if (word.is_string()) line += word.get_ref<const std::string&>() + "\n";
    }
  }
  return line;
}

constexpr std::string_view kOptions[] = {"--nproc-per-node", "--nproc_per_node"};

// The value of the option, which follows it behind "=" or white space; empty if it is not there.
std::string_view OptionIn(std::string_view line, std::string_view option) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  const std::size_t at = line.find(option);
  if (at == std::string_view::npos) return "";
  line.remove_prefix(at + option.size());
  if (line.starts_with('='))
    line.remove_prefix(1);
  else
    line.remove_prefix(static_cast<std::size_t>(
        std::find_if_not(line.begin(), line.end(), is_space) - line.begin()));
  return line.substr(
      0, static_cast<std::size_t>(std::find_if(line.begin(), line.end(), is_space) - line.begin()));
}

}  // namespace

std::size_t ProcessesOf(const Json& container) {
  const std::string line = CommandLine(container);
  for (const std::string_view option : kOptions) {
    if (const std::size_t count = Meaning(OptionIn(line, option), container); count > 0)
      return count;
  }
  return Meaning(VariableOf(container, "PET_NPROC_PER_NODE").value_or(""), container);
}

std::size_t CertainProcessesOf(const Json& container) {
  const std::string line = CommandLine(container);
  std::string_view value;
  std::size_t mentions = 0;
  for (const std::string_view option : kOptions) {
    if (mentions == 0) value = OptionIn(line, option);
    for (std::size_t at = line.find(option); at != std::string::npos;
         at = line.find(option, at + 1))
      ++mentions;
  }
  return mentions == 1 ? NumberOf(value) : 0;
}

}  // namespace strobe::kube
