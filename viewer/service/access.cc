#include "viewer/service/access.h"

#include <algorithm>

#include "common/base/guard.h"
#include "common/base/hash.h"
#include "common/base/parallel.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::viewer {
namespace {

// A digest, because a thousand groups in each key would take much memory. Lengths keep two lists of
// groups apart whose texts are the same when they are joined.
std::string DigestOf(const Asker& asker) {
  Sha256 digest;
  const auto add = [&digest](const std::string& text) {
    digest.Update(StrCat(text.size(), ":"));
    digest.Update(text);
  };
  add(asker.user);
  for (const std::string& group : asker.groups) add(group);
  return digest.Hex();
}

// All digests have the same length.
std::string KeyOf(const std::string& digest, const std::string& ns) { return digest + ns; }

}  // namespace

Access::Answer* Access::FindAnswer(const std::string& key, MonoTime now) {
  const auto found = answers_.find(key);
  if (found == answers_.end()) return nullptr;
  if (found->second.asking || now < found->second.until) return &found->second;
  ages_.erase(found->second.age);
  answers_.erase(found);
  return nullptr;
}

void Access::MakeRoom() {
  for (auto oldest = ages_.begin(); answers_.size() >= options_.max_answers;) {
    if (oldest == ages_.end()) return;  // All of them are being asked, one by each thread.
    const auto found = answers_.find(*oldest);
    if (found->second.asking) {
      ++oldest;
      continue;
    }
    answers_.erase(found);
    oldest = ages_.erase(oldest);
    ++counts_.forgotten;
  }
}

absl::StatusOr<bool> Access::Ask(const Asker& asker, const std::string& ns, const std::string& key,
                                 MonoTime deadline) {
  const MonoTime asked = clock_.MonoNow();
  absl::StatusOr<bool> allowed = absl::UnavailableError("the request was not sent");
  const absl::Status ran = RunGuarded(
      "access", [&] { allowed = judge_.MaySee(asker, ns, std::max(Nanos{1}, deadline - asked)); });
  if (!ran.ok()) allowed = ran;
  MutexLock lock(&mutex_);
  Answer& answer = answers_.at(key);
  answer.allowed = allowed;
  // Counts from the question, because a right that was withdrawn since may still be in the answer.
  answer.until = allowed.ok() ? asked + options_.remember : clock_.MonoNow() + options_.after_error;
  answer.asking = false;
  ++(!allowed.ok() ? counts_.failed : *allowed ? counts_.allowed : counts_.denied);
  return allowed;
}

absl::StatusOr<bool> Access::MaySeeOne(const Asker& asker, const std::string& ns,
                                       const std::string& key, MonoTime deadline) {
  {
    MutexLock lock(&mutex_);
    if (FindAnswer(key, clock_.MonoNow()) != nullptr) {
      const auto answered = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        const auto found = answers_.find(key);
        return found == answers_.end() || !found->second.asking;
      };
      if (!mutex_.AwaitFor(std::max(Nanos{0}, deadline - clock_.MonoNow()), answered))
        return absl::DeadlineExceededError("no answer arrived in time");
      const auto found = answers_.find(key);
      if (found == answers_.end()) return absl::UnavailableError("the answer was dropped");
      return found->second.allowed;
    }
    MakeRoom();
    Answer& answer = answers_[key];
    answer.age = ages_.insert(ages_.end(), key);
  }
  return Ask(asker, ns, key, deadline);
}

absl::StatusOr<std::vector<bool>> Access::MaySee(const Asker& asker,
                                                 const std::vector<std::string>& namespaces) {
  const MonoTime deadline = clock_.MonoNow() + options_.deadline;
  std::vector<absl::StatusOr<bool>> answers(namespaces.size(), absl::UnknownError("not asked"));
  const std::string digest = DigestOf(asker);
  const auto ask = [&](std::size_t i) {
    answers[i] = MaySeeOne(asker, namespaces[i], KeyOf(digest, namespaces[i]), deadline);
  };
  // No threads are started for what is known already.
  ParallelFor(namespaces.size(), MustAskAs(digest, namespaces) ? options_.concurrency : 1, ask);
  std::vector<bool> allowed;
  for (const absl::StatusOr<bool>& answer : answers) {
    if (!answer.ok())
      return absl::UnavailableError(StrCat("the API server did not say what ", asker.user,
                                           " may see: ", MessageOf(answer.status())));
    allowed.push_back(*answer);
  }
  return allowed;
}

std::optional<std::vector<bool>> Access::Remembered(const Asker& asker,
                                                    const std::vector<std::string>& namespaces) {
  const MonoTime now = clock_.MonoNow();
  const std::string digest = DigestOf(asker);
  std::vector<bool> allowed;
  for (const std::string& ns : namespaces) {
    const std::string key = KeyOf(digest, ns);
    MutexLock lock(&mutex_);
    const Answer* known = FindAnswer(key, now);
    if (known == nullptr || known->asking || !known->allowed.ok()) return std::nullopt;
    allowed.push_back(*known->allowed);
  }
  return allowed;
}

bool Access::MustAsk(const Asker& asker, const std::vector<std::string>& namespaces) {
  return MustAskAs(DigestOf(asker), namespaces);
}

bool Access::MustAskAs(const std::string& digest, const std::vector<std::string>& namespaces) {
  const MonoTime now = clock_.MonoNow();
  return std::any_of(namespaces.begin(), namespaces.end(), [&](const std::string& ns) {
    const std::string key = KeyOf(digest, ns);
    MutexLock lock(&mutex_);
    const Answer* known = FindAnswer(key, now);
    return known == nullptr || known->asking;
  });
}

AccessCounts Access::counts() {
  MutexLock lock(&mutex_);
  return counts_;
}

}  // namespace strobe::viewer
