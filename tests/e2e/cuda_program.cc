// cuda_program STEPS_PER_SECOND KERNELS_PER_STEP [THREADS] [STEPS]: simulates a trainer that uses
// only CUDA's driver API; runs on a real GPU and on the fake driver. Each step copies, clears,
// allocates and frees once, and launches the kernels. With 0 steps per second, it does not pause.
// Prints how many kernels it launched, in how many seconds, and how much processor time its trainer
// threads used.
//
// $FORK_EVERY_MS makes it fork children that annotate something and leave by exit(), which runs all
// exit handlers. $LISTEN makes it listen on that TCP port, like a trainer with a profiler server.
// When it gets SIGUSR1, it loads the library $LOAD_ON_USR1, like a late import of PyTorch, and
// listens on the TCP port $LISTEN_ON_USR1.
#include <arpa/inet.h>
#include <cuda.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

#include "strobe/trace_me.h"
#include "tests/e2e/cuda_driver.h"

namespace {

// Doubles the elements of a vector. Written in PTX, so that NVIDIA's compiler is not needed.
constexpr char kPtx[] = R"(
.version 7.0
.target sm_60
.address_size 64
.visible .entry _Z10add_floatsPfi(.param .u64 data, .param .u32 count)
{
  .reg .pred %p; .reg .f32 %f; .reg .b32 %r<5>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r2, %r2, %r3, %r4;
  setp.ge.s32 %p, %r2, %r1;
  @%p bra DONE;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.s32 %rd3, %r2, 4;
  add.s64 %rd2, %rd2, %rd3;
  ld.global.f32 %f, [%rd2];
  add.f32 %f, %f, %f;
  st.global.f32 [%rd2], %f;
DONE:
  ret;
}
)";

std::atomic<bool> stop{false}, late{false};
std::atomic<long> launched{0};

double ThreadSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double Train(const Cuda& cuda, int thread, double per_second, int kernels, long steps) {
  pthread_setname_np(pthread_self(), ("trainer-" + std::to_string(thread)).c_str());
  int devices = 1;
  cuda.device_count(&devices);
  CUcontext context;
  Check(cuda.retain(&context, thread % devices), "cuDevicePrimaryCtxRetain");
  Check(cuda.set_current(context), "cuCtxSetCurrent");
  CUmodule module;
  Check(cuda.load(&module, kPtx), "cuModuleLoadData");
  CUfunction function;
  Check(cuda.get(&function, module, "_Z10add_floatsPfi"), "cuModuleGetFunction");
  CUstream stream;
  Check(cuda.stream(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  constexpr int kCount = 4096;
  std::vector<float> host(kCount);
  CUdeviceptr data;
  Check(cuda.allocate(&data, kCount * 4), "cuMemAlloc");
  auto next = std::chrono::steady_clock::now();
  const double before = ThreadSeconds();
  for (long step = 0; step < steps && !stop; ++step) {
    {
      strobe::StepTraceMe me("train", step);
      if (cuda.range != nullptr && per_second > 0) cuda.range("forward");
      Check(cuda.copy(data, host.data(), kCount * 4, stream), "cuMemcpyHtoDAsync");
      Check(cuda.clear(data, 0, 1024, stream), "cuMemsetD8Async");
      CUdeviceptr scratch;
      Check(cuda.allocate(&scratch, 1024), "cuMemAlloc");
      int count = kCount;
      void* arguments[] = {&data, &count};
      for (int i = 0; i < kernels; ++i) {
        Check(cuda.launch(function, kCount / 128, 1, 1, 128, 1, 1, 256, stream, arguments, nullptr),
              "cuLaunchKernel");
      }
      launched += kernels;
      if (cuda.range != nullptr && per_second > 0) cuda.range(nullptr);
      if (per_second > 0) Check(cuda.synchronize(stream), "cuStreamSynchronize");
      cuda.release(scratch);
    }
    if (per_second > 0) {
      next += std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::duration<double>(1 / per_second));
      std::this_thread::sleep_until(next);
    }
  }
  return ThreadSeconds() - before;
}

void Listen(const char* port) {
  if (port == nullptr) return;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(server, 8) != 0)
    std::exit(2);
}

void DoWhatIsLate() {
  const char *library = std::getenv("LOAD_ON_USR1"), *port = std::getenv("LISTEN_ON_USR1");
  if (library == nullptr && port == nullptr) return;
  while (!late && !stop) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (stop) return;
  if (library != nullptr && dlopen(library, RTLD_NOW) == nullptr) std::exit(2);
  Listen(port);
}

// Forks a child every $FORK_EVERY_MS until stopped. Returns how many of them failed.
int ForkUntilStopped() {
  const char* every = std::getenv("FORK_EVERY_MS");
  int failed = 0;
  while (every != nullptr && !stop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(every)));
    const pid_t child = fork();
    if (child == 0) {
      { strobe::TraceMe me("in a child"); }
      std::exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    failed += status == 0 ? 0 : 1;
  }
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  const double per_second = argc > 1 ? std::atof(argv[1]) : 100;
  const int kernels = argc > 2 ? std::atoi(argv[2]) : 10;
  const int threads = argc > 3 ? std::atoi(argv[3]) : 1;
  const long steps = argc > 4 ? std::atol(argv[4]) : 1'000'000'000;
  std::signal(SIGTERM, [](int) { stop = true; });
  std::signal(SIGUSR1, [](int) { late = true; });
  const Cuda cuda;
  Check(cuda.init(0), "cuInit");
  std::printf("ready\n");
  std::fflush(stdout);
  Listen(std::getenv("LISTEN"));
  std::vector<std::thread> trainers;
  std::vector<double> seconds(static_cast<std::size_t>(threads));
  const auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < threads; ++i) {
    trainers.emplace_back([&, i] {
      seconds[static_cast<std::size_t>(i)] = Train(cuda, i, per_second, kernels, steps);
    });
  }
  DoWhatIsLate();
  const int failed = ForkUntilStopped();
  for (std::thread& trainer : trainers) trainer.join();
  if (failed > 0) std::printf("%d children failed\n", failed);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
  double all = 0;
  for (const double one : seconds) all += one;
  std::printf("launched %ld in %.3f s, %.6f s of processor time\n", launched.load(), took.count(),
              all);
  return 0;
}
