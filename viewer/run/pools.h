// Groups the threads of a host: those of one pool become a section of the page.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace strobe::viewer {

// What the names of a pool's threads have in common: "tf_XLAEigen" for "tf_XLAEigen/123" and
// "tf_XLAEigen/-7", "worker" for "worker-3" and "worker_4", "Thread (serve)" for "Thread-2
// (serve)". A name without a number is its own pool.
std::string PoolOf(std::string_view thread);

// By thread: its pool, if at least two of the threads are of that pool; else empty.
std::vector<std::string> FindPools(const std::vector<std::string_view>& threads);

}  // namespace strobe::viewer
