#include "collector/trace/digest/time_sweep.h"

#include <algorithm>

namespace strobe::digest {

void Unite(Spans& spans) {
  std::sort(spans.begin(), spans.end());
  std::size_t kept = 0;
  for (const auto& span : spans) {
    if (kept > 0 && span.first <= spans[kept - 1].second)
      spans[kept - 1].second = std::max(spans[kept - 1].second, span.second);
    else
      spans[kept++] = span;
  }
  spans.resize(kept);
}

std::int64_t TimeWithin(const Spans& spans, std::int64_t begin, std::int64_t end) {
  std::int64_t sum = 0;
  auto span = std::partition_point(spans.begin(), spans.end(),
                                   [&](const auto& s) { return s.second <= begin; });
  for (; span != spans.end() && span->first < end; ++span)
    sum += std::min(span->second, end) - std::max(span->first, begin);
  return sum;
}

Spans Without(const Spans& spans, const Spans& others) {
  Spans left;
  auto other = others.begin();
  for (auto [begin, end] : spans) {
    while (other != others.end() && other->second <= begin) ++other;
    for (auto in = other; in != others.end() && in->first < end; ++in) {
      if (in->first > begin) left.emplace_back(begin, in->first);
      begin = std::max(begin, in->second);
    }
    if (begin < end) left.emplace_back(begin, end);
  }
  return left;
}

SweepPlan::SweepPlan(std::vector<std::int64_t> moments, const HostSpans& host)
    : moments_(std::move(moments)) {
  for (const std::int64_t moment : moments_) marks_.push_back({moment, Change::kMoment});
  const auto add = [&](const Spans& spans, Change on, Change off) {
    for (const auto& [begin, end] : spans) {
      if (begin == end) continue;
      marks_.push_back({begin, on});
      marks_.push_back({end, off});
    }
  };
  add(host.input, Change::kInputOn, Change::kInputOff);
  add(host.collection, Change::kCollectionOn, Change::kCollectionOff);
  add(host.calls, Change::kCallOn, Change::kCallOff);
  // Spans of one kind do not touch, so that the order of marks at one moment does not matter.
  std::stable_sort(marks_.begin(), marks_.end(),
                   [](const Mark& a, const Mark& b) { return a.at < b.at; });
}

std::size_t SweepPlan::NumberOf(std::int64_t moment) const {
  return static_cast<std::size_t>(std::lower_bound(moments_.begin(), moments_.end(), moment) -
                                  moments_.begin());
}

TimeSweep::TimeSweep(const SweepPlan& plan)
    : plan_(&plan), now_ps_(plan.marks_.empty() ? 0 : plan.marks_.front().at) {
  at_moments_.reserve(plan.moments());
}

void TimeSweep::Account(std::int64_t at_ps) {
  const std::int64_t passed = at_ps - now_ps_;
  if (passed <= 0) return;
  now_ps_ = at_ps;
  if (working_ != 0) {
    sums_.working[working_] += passed;
  } else if (input_ || waiting_ > 0) {
    sums_.idle_input += passed;
  } else if (collection_) {
    sums_.idle_collection += passed;
  } else if (call_) {
    sums_.idle_call += passed;
  } else {
    sums_.idle += passed;
    unexplained_ += passed;
  }
}

void TimeSweep::AdvanceTo(std::int64_t at_ps) {
  while (next_mark_ < plan_->marks_.size() && plan_->marks_[next_mark_].at <= at_ps) {
    const SweepPlan::Mark& mark = plan_->marks_[next_mark_++];
    Account(mark.at);
    switch (mark.change) {
      case SweepPlan::Change::kMoment:
        if (idle()) unexplained_at_.emplace_back(at_moments_.size(), unexplained_);
        at_moments_.push_back(sums_);
        break;
      case SweepPlan::Change::kInputOn:
      case SweepPlan::Change::kInputOff:
        input_ = mark.change == SweepPlan::Change::kInputOn;
        break;
      case SweepPlan::Change::kCollectionOn:
      case SweepPlan::Change::kCollectionOff:
        collection_ = mark.change == SweepPlan::Change::kCollectionOn;
        break;
      case SweepPlan::Change::kCallOn:
      case SweepPlan::Change::kCallOff:
        call_ = mark.change == SweepPlan::Change::kCallOn;
        break;
    }
  }
  // Nothing is wanted before the first mark.
  if (next_mark_ > 0 || plan_->marks_.empty()) Account(at_ps);
}

void TimeSweep::Start(std::int64_t at_ps, WorkKind kind) {
  AdvanceTo(at_ps);
  if (kind == WorkKind::kInput) {
    ++waiting_;
    return;
  }
  const unsigned place = kind == WorkKind::kCommunication ? 1 : kind == WorkKind::kCopy ? 2 : 0;
  ++running_[place];
  working_ |= 1u << place;
  begun_ = true;
  // Idle time for which nobody was blamed until now stays without a reason.
  unexplained_ = 0;
  unexplained_at_.clear();
}

void TimeSweep::Stop(std::int64_t at_ps, WorkKind kind) {
  AdvanceTo(at_ps);
  if (kind == WorkKind::kInput) {
    --waiting_;
    return;
  }
  const unsigned place = kind == WorkKind::kCommunication ? 1 : kind == WorkKind::kCopy ? 2 : 0;
  if (--running_[place] == 0) working_ &= ~(1u << place);
  if (working_ == 0) idle_since_ps_ = at_ps;
}

void TimeSweep::BlameHost(std::int64_t at_ps) {
  AdvanceTo(at_ps);
  if (!idle()) return;
  sums_.host_bound += unexplained_;
  // Sums that were taken at moments since the idle time began did not include it yet.
  for (const auto& [moment, before] : unexplained_at_) at_moments_[moment].host_bound += before;
  unexplained_ = 0;
  unexplained_at_.clear();
}

void TimeSweep::Finish() {
  if (!plan_->marks_.empty()) AdvanceTo(plan_->marks_.back().at);
}

std::pair<Breakdown, HostTime> TimeSweep::Between(std::size_t from, std::size_t to) const {
  const Sums &a = at_moments_[from], &b = at_moments_[to];
  std::array<std::int64_t, 8> worked{};
  for (std::size_t i = 0; i < worked.size(); ++i) worked[i] = b.working[i] - a.working[i];
  const auto sum = [&](unsigned with, unsigned without) {
    std::int64_t ps = 0;
    for (unsigned i = 1; i < worked.size(); ++i) {
      if ((i & with) == with && (i & without) == 0) ps += worked[i];
    }
    return ps / 1000;
  };
  Breakdown time;
  time.span_ns = (plan_->moments_[to] - plan_->moments_[from]) / 1000;
  time.compute_ns = sum(kCompute, 0);
  // A device that waits for its host's call waits for other workers.
  const std::int64_t calls = (b.idle_call - a.idle_call) / 1000;
  time.communication_ns = sum(kCommunication, 0) + calls;
  time.exposed_communication_ns = sum(kCommunication, kCompute) + calls;
  time.copies_ns = sum(kCopy, 0);
  time.exposed_copies_ns = sum(kCopy, kCompute | kCommunication);
  // The rest, and not the sum of idle times, so that the parts add up although each is rounded.
  time.idle_ns = std::max<std::int64_t>(
      time.span_ns - time.compute_ns - time.exposed_communication_ns - time.exposed_copies_ns, 0);
  HostTime host;
  host.input_stall_ns = (b.idle_input - a.idle_input) / 1000;
  host.garbage_collection_ns = (b.idle_collection - a.idle_collection) / 1000;
  host.host_bound_ns = (b.host_bound - a.host_bound) / 1000;
  return {time, host};
}

}  // namespace strobe::digest
