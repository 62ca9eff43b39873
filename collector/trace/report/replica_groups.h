// XLA's replica groups, which name all groups of a job at once. Pure.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "collector/trace/digest/digest.h"

namespace strobe::report {

// The group in which `id` is, of "{{0,1},{2,3}}" or the short form "[4,2]<=[2,4]T(1,0)": the
// numbers from 0 on in an array of the sizes behind "<=", with its dimensions in the order of T,
// read as so many groups of so many. Empty if the text is none of it, or was cut before the group.
std::vector<std::uint32_t> ReplicaGroupOf(std::string_view groups, std::uint32_t id);

// The communicator with the ranks of the worker's own group, which XLA does not tell by itself.
// They are known where each process has one device, so that a rank is the number of a partition;
// other communicators are returned as they are.
digest::DigestCommunicator WithOwnGroup(const digest::Digest& digest,
                                        const digest::DigestCommunicator& communicator);

}  // namespace strobe::report
