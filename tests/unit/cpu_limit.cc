// Ends the program if a test uses much more processor time than any needs, as where the time grows
// by the square of an input. Processor time hardly depends on what else the machine does.
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace strobe {
namespace {

#if defined(STROBE_SANITIZED)
constexpr rlim_t kMostSeconds = 300;
#else
constexpr rlim_t kMostSeconds = 40;
#endif

class CpuLimit : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override {
    rusage used{};
    rlimit limit{};
    if (getrusage(RUSAGE_SELF, &used) != 0 || getrlimit(RLIMIT_CPU, &limit) != 0) return;
    limit.rlim_cur =
        static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + kMostSeconds;
    (void)setrlimit(RLIMIT_CPU, &limit);
  }
};

const bool kListens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new CpuLimit);
  return true;
}();

}  // namespace
}  // namespace strobe
