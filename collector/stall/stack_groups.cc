#include "collector/stall/stack_groups.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "collector/stall/verdict.h"
#include "common/base/strings.h"
#include "common/text/json.h"

namespace strobe::stall {
namespace {

using GroupsObject = nlohmann::ordered_json;

std::string TextOf(const std::vector<StackFrame>& frames) {
  std::string text;
  for (const StackFrame& frame : frames)
    text += StrCat("  ", frame.file, ":", frame.line, " in ", frame.name, "\n");
  return text.empty() ? "  (no Python frame)\n" : text;
}

// Has the second look another stack for this thread?
bool MovedSince(const RankEvidence& rank, const StackThread& thread) {
  if (!rank.stacks_later) return false;
  const std::vector<StackThread>& later = rank.stacks_later->threads;
  const auto same = std::find_if(later.begin(), later.end(), [&](const StackThread& one) {
    return one.id == thread.id && one.tid == thread.tid;
  });
  return same == later.end() || same->frames != thread.frames;
}

}  // namespace

std::vector<StackGroup> GroupStacks(const JobEvidence& evidence, bool all_threads) {
  std::map<std::pair<std::string, std::string>, StackGroup> by_stack;
  for (const auto& [rank, one] : evidence.ranks) {
    if (!one.stacks) continue;
    for (std::size_t i = 0; i < one.stacks->threads.size(); ++i) {
      const bool is_main = i == one.stacks->main;
      if (!is_main && !all_threads) continue;
      const StackThread& thread = one.stacks->threads[i];
      const std::string name = is_main ? "main" : thread.name;
      StackGroup& group = by_stack[{name, TextOf(thread.frames)}];
      group.thread = name;
      group.frames = thread.frames;
      group.ranks.push_back(rank);
      if (thread.holds_gil) group.keep_gil.push_back(rank);
      if (MovedSince(one, thread)) group.moved.push_back(rank);
    }
  }
  std::vector<StackGroup> groups;
  groups.reserve(by_stack.size());
  for (auto& [key, group] : by_stack) groups.push_back(std::move(group));
  std::stable_sort(groups.begin(), groups.end(), [](const StackGroup& a, const StackGroup& b) {
    return std::make_tuple(a.thread != "main", a.ranks.size(), a.ranks.front()) <
           std::make_tuple(b.thread != "main", b.ranks.size(), b.ranks.front());
  });
  return groups;
}

std::string StackGroupsText(const std::vector<StackGroup>& groups, std::size_t of) {
  std::string text;
  for (const StackGroup& group : groups) {
    if (!text.empty()) text += "\n";
    text += StrCat(group.ranks.size() == 1 ? "rank " : "ranks ", RanksText(group.ranks), " (",
                   group.ranks.size(), " of ", of, ")");
    if (group.thread != "main") text += StrCat(", thread ", group.thread);
    if (!group.keep_gil.empty())
      text += StrCat(", Python's lock: ", group.keep_gil.size() == group.ranks.size()
                                              ? std::string("all")
                                              : RanksText(group.keep_gil));
    if (!group.moved.empty())
      text +=
          StrCat(", moved: ", group.moved.size() == group.ranks.size() ? std::string("all")
                                                                       : RanksText(group.moved));
    text += StrCat("\n", TextOf(group.frames));
  }
  return text;
}

std::string StackGroupsJson(const std::vector<StackGroup>& groups, int indent) {
  GroupsObject all = GroupsObject::array();
  for (const StackGroup& group : groups) {
    GroupsObject frames = GroupsObject::array();
    for (const StackFrame& frame : group.frames)
      frames.push_back({{"file", frame.file}, {"line", frame.line}, {"name", frame.name}});
    all.push_back({{"ranks", group.ranks},
                   {"thread", group.thread},
                   {"keepGil", group.keep_gil},
                   {"moved", group.moved},
                   {"frames", std::move(frames)}});
  }
  return JsonText(all, indent);
}

}  // namespace strobe::stall
