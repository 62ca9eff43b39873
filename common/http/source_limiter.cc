#include "common/http/source_limiter.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

namespace strobe::http {
namespace {

constexpr std::size_t kNetworkBytes = 8;
constexpr double kShareOfAPart = 0.25;
constexpr std::size_t kMaxPart = 64;  // Bounds the memory; no namespace's name is longer.

}  // namespace

std::string NetworkOf(const std::string& address) {
  std::array<char, sizeof(in6_addr)> bytes{};
  const std::string without_zone = address.substr(0, address.find('%'));
  if (inet_pton(AF_INET6, without_zone.c_str(), bytes.data()) != 1) return address;
  return std::string(bytes.data(), kNetworkBytes);
}

SourceLimiter::Source& SourceLimiter::Find(Sources& sources, const std::string& name,
                                           double share) const {
  const MonoTime now = clock_.MonoNow();
  const auto known = sources.find(name);
  if (known == sources.end()) {
    if (sources.size() >= limits_.sources) {
      // Forgets the source that was used least recently, preferably one without a running request.
      // Its bucket has had the most time to fill.
      const auto oldest =
          std::min_element(sources.begin(), sources.end(), [](const auto& a, const auto& b) {
            return std::pair(a.second.running > 0, a.second.bucket.refilled()) <
                   std::pair(b.second.running > 0, b.second.bucket.refilled());
          });
      sources.erase(oldest);
    }
    const fair::TokenBucket full(limits_.per_second * share, limits_.burst * share, now);
    return sources.emplace(name, Source{full}).first->second;
  }
  known->second.bucket.Refill(now);
  return known->second;
}

std::shared_ptr<void> SourceLimiter::Enter(const std::string& address, const std::string& part) {
  const std::string source = NetworkOf(address);
  const std::string name = source + "/" + part.substr(0, kMaxPart);
  MutexLock lock(&mutex_);
  Source& asking = Find(sources_, source, 1);
  const int left = std::min(limits_.at_once, limits_.all_at_once - running_) - asking.running;
  // What is refused here adds no part, so that an address cannot have those of others forgotten.
  if (left <= 0 || asking.bucket.empty()) return nullptr;
  Source* const sharing = part.empty() ? nullptr : &Find(parts_, name, kShareOfAPart);
  if (sharing != nullptr) {
    if (sharing->running >= left) return nullptr;
    if (!sharing->bucket.Take() && asking.bucket.tokens() <= limits_.burst / 2) return nullptr;
  }
  (void)asking.bucket.Take();
  ++asking.running;
  if (sharing != nullptr) ++sharing->running;
  ++running_;
  return std::shared_ptr<void>(this, [this, source, name](void*) {
    MutexLock leaving(&mutex_);
    --running_;
    if (const auto gone = sources_.find(source); gone != sources_.end()) --gone->second.running;
    if (const auto gone = parts_.find(name); gone != parts_.end()) --gone->second.running;
  });
}

std::shared_ptr<void> SourceLimiter::EnterKnown(const std::string& part) {
  // No address is like this.
  const std::string name = "known/" + part.substr(0, kMaxPart);
  MutexLock lock(&mutex_);
  const int left = limits_.all_at_once - running_;
  if (left <= 0) return nullptr;
  if (!part.empty()) {
    Source& sharing = Find(parts_, name, kShareOfAPart);
    if (sharing.running >= left) return nullptr;
    ++sharing.running;
  }
  ++running_;
  return std::shared_ptr<void>(this, [this, name](void*) {
    MutexLock leaving(&mutex_);
    --running_;
    if (const auto gone = parts_.find(name); gone != parts_.end()) --gone->second.running;
  });
}

}  // namespace strobe::http
