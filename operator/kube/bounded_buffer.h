// The target buffer of a cpprest response stream, with back-pressure: cpprest does not read the
// next chunk before the last one was taken. A slow reader therefore slows the server instead of
// filling memory.
#pragma once
#include <cpprest/astreambuf.h>

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace strobe::kube {

class BoundedBuffer final
    : public concurrency::streams::details::streambuf_state_manager<std::uint8_t> {
 public:
  using Base = concurrency::streams::details::streambuf_state_manager<std::uint8_t>;
  using traits = Base::traits;
  using int_type = Base::int_type;
  using pos_type = Base::pos_type;
  using off_type = Base::off_type;

  explicit BoundedBuffer(std::size_t bound);

  enum class Take { kData, kNothingYet, kEnd };
  // Moves the buffered bytes to `out`. Waits for data for at most `timeout`. kEnd after Finish,
  // when the buffer is empty.
  Take TakeFor(Nanos timeout, std::string& out);
  // Announces that no more data will come.
  void Finish();

  bool can_seek() const override { return false; }
  bool has_size() const override { return false; }
  std::size_t buffer_size(std::ios_base::openmode) const override { return 0; }
  void set_buffer_size(std::size_t, std::ios_base::openmode) override {}
  std::size_t in_avail() const override { return 0; }
  pos_type getpos(std::ios_base::openmode) const override {
    return static_cast<pos_type>(traits::eof());
  }
  pos_type seekpos(pos_type, std::ios_base::openmode) override {
    return static_cast<pos_type>(traits::eof());
  }
  pos_type seekoff(off_type, std::ios_base::seekdir, std::ios_base::openmode) override {
    return static_cast<pos_type>(traits::eof());
  }
  bool acquire(std::uint8_t*& pointer, std::size_t& count) override;
  void release(std::uint8_t*, std::size_t) override {}

 protected:
  pplx::task<int_type> _putc(std::uint8_t byte) override;
  pplx::task<std::size_t> _putn(const std::uint8_t* bytes, std::size_t count) override;
  // TakeFor is the only reader; cpprest never reads from a response stream.
  pplx::task<int_type> _bumpc() override { return Eof(); }
  int_type _sbumpc() override { return traits::eof(); }
  pplx::task<int_type> _getc() override { return Eof(); }
  int_type _sgetc() override { return traits::eof(); }
  pplx::task<int_type> _nextc() override { return Eof(); }
  pplx::task<int_type> _ungetc() override { return Eof(); }
  pplx::task<std::size_t> _getn(std::uint8_t*, std::size_t) override {
    return pplx::task_from_result<std::size_t>(0);
  }
  std::size_t _scopy(std::uint8_t*, std::size_t) override { return 0; }
  pplx::task<bool> _sync() override { return pplx::task_from_result(true); }
  std::uint8_t* _alloc(std::size_t) override { return nullptr; }
  void _commit(std::size_t) override {}
  pplx::task<void> _close_write() override;

 private:
  static pplx::task<int_type> Eof() { return pplx::task_from_result<int_type>(traits::eof()); }

  const std::size_t bound_;
  Mutex mutex_;
  std::string data_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  // The write that waits for space, and the count that completes it.
  std::unique_ptr<pplx::task_completion_event<std::size_t>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::size_t waiting_count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace strobe::kube
