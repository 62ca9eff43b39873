#include "operator/kube/bounded_buffer.h"

#include <utility>

namespace strobe::kube {

BoundedBuffer::BoundedBuffer(std::size_t bound)
    : Base(std::ios_base::out | std::ios_base::in), bound_(bound) {}

BoundedBuffer::Take BoundedBuffer::TakeFor(Nanos timeout, std::string& out) {
  std::unique_ptr<pplx::task_completion_event<std::size_t>> waiting;
  std::size_t count = 0;
  {
    MutexLock lock(&mutex_);
    const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return finished_ || !data_.empty();
    };
    mutex_.AwaitFor(timeout, ready);
    if (data_.empty()) return finished_ ? Take::kEnd : Take::kNothingYet;
    out = std::exchange(data_, {});
    waiting = std::move(waiting_);
    count = waiting_count_;
  }
  // Not under the lock, because the continuation may write again at once.
  if (waiting != nullptr) waiting->set(count);
  return Take::kData;
}

void BoundedBuffer::Finish() {
  std::unique_ptr<pplx::task_completion_event<std::size_t>> waiting;
  {
    MutexLock lock(&mutex_);
    finished_ = true;
    waiting = std::move(waiting_);
  }
  if (waiting != nullptr) waiting->set(0);
}

bool BoundedBuffer::acquire(std::uint8_t*& pointer, std::size_t& count) {
  pointer = nullptr;
  count = 0;
  return false;
}

pplx::task<BoundedBuffer::int_type> BoundedBuffer::_putc(std::uint8_t byte) {
  return _putn(&byte, 1).then([byte](std::size_t) { return static_cast<int_type>(byte); });
}

pplx::task<std::size_t> BoundedBuffer::_putn(const std::uint8_t* bytes, std::size_t count) {
  MutexLock lock(&mutex_);
  if (finished_) return pplx::task_from_result<std::size_t>(0);
  data_.append(reinterpret_cast<const char*>(bytes), count);
  if (data_.size() < bound_) return pplx::task_from_result(count);
  waiting_ = std::make_unique<pplx::task_completion_event<std::size_t>>();
  waiting_count_ = count;
  return pplx::create_task(*waiting_);
}

pplx::task<void> BoundedBuffer::_close_write() {
  m_stream_can_write = false;
  Finish();
  return pplx::task_from_result();
}

}  // namespace strobe::kube
