#include "common/http/source_limiter.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

namespace strobe::http {
namespace {

constexpr std::size_t kNetworkBytes = 8;

}  // namespace

std::string NetworkOf(const std::string& address) {
  std::array<char, sizeof(in6_addr)> bytes{};
  const std::string without_zone = address.substr(0, address.find('%'));
  if (inet_pton(AF_INET6, without_zone.c_str(), bytes.data()) != 1) return address;
  return std::string(bytes.data(), kNetworkBytes);
}

SourceLimiter::Source& SourceLimiter::Find(const std::string& source) {
  const MonoTime now = clock_.MonoNow();
  const auto known = sources_.find(source);
  if (known == sources_.end()) {
    if (sources_.size() >= limits_.sources) {
      // Forgets the source that was used least recently, preferably one without a running request.
      // Its bucket has had the most time to fill.
      const auto oldest =
          std::min_element(sources_.begin(), sources_.end(), [](const auto& a, const auto& b) {
            return std::pair(a.second.running > 0, a.second.bucket.refilled()) <
                   std::pair(b.second.running > 0, b.second.bucket.refilled());
          });
      sources_.erase(oldest);
    }
    return sources_.emplace(source, Source{TokenBucket(limits_.per_second, limits_.burst, now)})
        .first->second;
  }
  known->second.bucket.Refill(now);
  return known->second;
}

std::shared_ptr<void> SourceLimiter::Enter(const std::string& address) {
  const std::string source = NetworkOf(address);
  MutexLock lock(&mutex_);
  Source& asking = Find(source);
  const int most = std::min(limits_.at_once, limits_.all_at_once - running_);
  if (asking.running >= most || !asking.bucket.Take()) return nullptr;
  ++asking.running;
  ++running_;
  return std::shared_ptr<void>(this, [this, source](void*) {
    MutexLock leaving(&mutex_);
    --running_;
    if (const auto left = sources_.find(source); left != sources_.end()) --left->second.running;
  });
}

std::shared_ptr<void> SourceLimiter::EnterKnown() {
  MutexLock lock(&mutex_);
  if (running_ >= limits_.all_at_once) return nullptr;
  ++running_;
  return std::shared_ptr<void>(this, [this](void*) {
    MutexLock leaving(&mutex_);
    --running_;
  });
}

}  // namespace strobe::http
