#include "collector/trace/report/replica_groups.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>

namespace strobe::report {
namespace {

// Hostile texts name more.
constexpr std::uint64_t kMaxReplicas = 1 << 20;
constexpr std::size_t kMaxDimensions = 8;

// Reads numbers with commas between them from the front of `text`, and takes them away.
std::vector<std::uint32_t> TakeNumbers(std::string_view& text) {
  std::vector<std::uint32_t> numbers;
  while (true) {
    std::uint32_t number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (read.ec != std::errc()) return numbers;
    text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
    numbers.push_back(number);
    if (!text.starts_with(',')) return numbers;
    text.remove_prefix(1);
  }
}

bool Take(std::string_view word, std::string_view& text) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

std::vector<std::uint32_t> InList(std::string_view text, std::uint32_t id) {
  while (Take("{", text)) {
    std::vector<std::uint32_t> group = TakeNumbers(text);
    if (!Take("}", text)) return {};
    if (std::find(group.begin(), group.end(), id) != group.end()) return group;
    if (!Take(",", text)) return {};
  }
  return {};
}

// The product of sizes; 0 if it is too large or there are none.
std::uint64_t ProductOf(const std::vector<std::uint32_t>& sizes) {
  if (sizes.empty() || sizes.size() > kMaxDimensions) return 0;
  std::uint64_t product = 1;
  for (const std::uint32_t size : sizes) {
    product *= size;
    if (product > kMaxReplicas) return 0;
  }
  return product;
}

bool IsOrder(const std::vector<std::uint32_t>& order, std::size_t dimensions) {
  if (order.size() != dimensions) return false;
  for (std::uint32_t i = 0; i < dimensions; ++i)
    if (std::find(order.begin(), order.end(), i) == order.end()) return false;
  return true;
}

// The number at place `at` of the array of these sizes after its dimensions were put in this order.
std::uint32_t NumberAt(std::uint64_t at, const std::vector<std::uint32_t>& sizes,
                       const std::vector<std::uint32_t>& order) {
  std::vector<std::uint64_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  std::uint64_t number = 0;
  for (std::size_t i = order.size(); i-- > 0;) {
    number += at % sizes[order[i]] * strides[order[i]];
    at /= sizes[order[i]];
  }
  return static_cast<std::uint32_t>(number);
}

std::vector<std::uint32_t> InArray(std::string_view text, std::uint32_t id) {
  const std::vector<std::uint32_t> shape = TakeNumbers(text);
  if (shape.size() != 2 || !Take("]<=[", text)) return {};
  const std::vector<std::uint32_t> sizes = TakeNumbers(text);
  const std::uint64_t all = ProductOf(sizes);
  if (all == 0 || all != ProductOf(shape) || id >= all || !Take("]", text)) return {};
  std::vector<std::uint32_t> order;
  if (Take("T(", text)) {
    order = TakeNumbers(text);
    if (!IsOrder(order, sizes.size())) return {};
  } else {
    for (std::uint32_t i = 0; i < sizes.size(); ++i) order.push_back(i);
  }
  std::vector<std::uint32_t> group;
  for (std::uint64_t at = 0; at < all; ++at) {
    if (at % shape[1] == 0) {
      if (std::find(group.begin(), group.end(), id) != group.end()) return group;
      group.clear();
    }
    group.push_back(NumberAt(at, sizes, order));
  }
  return std::find(group.begin(), group.end(), id) != group.end() ? group
                                                                  : std::vector<std::uint32_t>();
}

}  // namespace

std::vector<std::uint32_t> ReplicaGroupOf(std::string_view groups, std::uint32_t id) {
  if (Take("[", groups)) return InArray(groups, id);
  return Take("{", groups) ? InList(groups, id) : std::vector<std::uint32_t>();
}

digest::DigestCommunicator WithOwnGroup(const digest::Digest& digest,
                                        const digest::DigestCommunicator& communicator) {
  digest::DigestCommunicator own = communicator;
  const bool one_device = digest.devices.size() == 1 && !digest.knows.host_device;
  if (!digest.rank || !one_device || !communicator.ranks.empty()) return own;
  std::vector<std::uint32_t> ranks = ReplicaGroupOf(communicator.name, *digest.rank);
  if (ranks.empty()) return own;
  own.size = static_cast<std::uint32_t>(ranks.size());
  own.ranks = std::move(ranks);
  return own;
}

}  // namespace strobe::report
