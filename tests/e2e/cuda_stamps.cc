// cuda_stamps FILE STEPS_PER_SECOND KERNELS THREADS calls|graph: launches kernels each of which
// notes its own begin and end by the device's clock, as the truth for what a profiler says of them.
// Each thread has a stream; a step launches KERNELS kernels by calls, or as one CUDA graph. With 0
// steps per second, it does not pause. Ends at SIGTERM and then writes FILE: a line "THREADS
// KERNELS", and for each thread a line with the number of its steps and 16 bytes (begin, end) for
// each kernel, in the order of their launches. Steps are annotated with STEP * THREADS + THREAD.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "strobe/trace_me.h"
#include "tests/e2e/cuda_driver.h"

namespace {

// The last kernel of a step counts the steps. Kernels of a stream follow one another, so that all
// of a step read the same number. Written in PTX, so that NVIDIA's compiler is not needed.
constexpr char kPtx[] = R"(
.version 7.0
.target sm_60
.address_size 64
.visible .entry stamp(.param .u64 out, .param .u64 counter, .param .u32 node, .param .u32 nodes,
                      .param .u32 capacity)
{
  .reg .pred %p; .reg .b32 %r<7>; .reg .b64 %rd<7>;
  mov.u64 %rd1, %globaltimer;
  ld.param.u32 %r1, [node];
  ld.param.u32 %r2, [nodes];
  ld.param.u32 %r3, [capacity];
  ld.param.u64 %rd2, [counter];
  cvta.to.global.u64 %rd3, %rd2;
  ld.volatile.global.u32 %r4, [%rd3];
  mad.lo.u32 %r5, %r4, %r2, %r1;
  setp.ge.u32 %p, %r5, %r3;
  @%p bra COUNT;
  ld.param.u64 %rd4, [out];
  cvta.to.global.u64 %rd4, %rd4;
  mul.wide.u32 %rd5, %r5, 16;
  add.u64 %rd4, %rd4, %rd5;
  mov.u64 %rd6, %globaltimer;
  st.global.v2.u64 [%rd4], {%rd1, %rd6};
COUNT:
  add.u32 %r6, %r1, 1;
  setp.ne.u32 %p, %r6, %r2;
  @%p bra DONE;
  add.u32 %r4, %r4, 1;
  st.volatile.global.u32 [%rd3], %r4;
DONE:
  ret;
}
)";
constexpr std::uint32_t kCapacity = 4 << 20;  // Kernels of a thread; later ones are not noted.
constexpr std::size_t kStampBytes = 16;

std::atomic<bool> stop{false};

struct Options {
  double per_second;
  std::uint32_t kernels;
  int threads;
  bool graph;
};

// What a thread has on the device, and how many steps it ran.
struct Trainer {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr out = 0, counter = 0;
  CUgraphExec graph = nullptr;
  std::uint64_t steps = 0;
};

void LaunchAll(const Cuda& cuda, Trainer& trainer, std::uint32_t kernels) {
  std::uint32_t capacity = kCapacity;
  for (std::uint32_t node = 0; node < kernels; ++node) {
    void* arguments[] = {&trainer.out, &trainer.counter, &node, &kernels, &capacity};
    Check(cuda.launch(trainer.function, 1, 1, 1, 1, 1, 1, 0, trainer.stream, arguments, nullptr),
          "cuLaunchKernel");
  }
}

void Prepare(const Cuda& cuda, const Options& options, Trainer& trainer) {
  Check(cuda.retain(&trainer.context, 0), "cuDevicePrimaryCtxRetain");
  Check(cuda.set_current(trainer.context), "cuCtxSetCurrent");
  CUmodule module = nullptr;
  Check(cuda.load(&module, kPtx), "cuModuleLoadData");
  Check(cuda.get(&trainer.function, module, "stamp"), "cuModuleGetFunction");
  Check(cuda.stream(&trainer.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  Check(cuda.allocate(&trainer.out, kCapacity * kStampBytes), "cuMemAlloc");
  Check(cuda.allocate(&trainer.counter, sizeof(std::uint32_t)), "cuMemAlloc");
  Check(cuda.clear(trainer.counter, 0, sizeof(std::uint32_t), trainer.stream), "cuMemsetD8Async");
  Check(cuda.synchronize(trainer.stream), "cuStreamSynchronize");
  if (!options.graph) return;
  CUgraph graph = nullptr;
  Check(cuda.begin_capture(trainer.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "cuStreamBeginCapture");
  LaunchAll(cuda, trainer, options.kernels);
  Check(cuda.end_capture(trainer.stream, &graph), "cuStreamEndCapture");
  Check(cuda.instantiate(&trainer.graph, graph, 0), "cuGraphInstantiateWithFlags");
}

void Train(const Cuda& cuda, const Options& options, int number, Trainer& trainer) {
  Check(cuda.set_current(trainer.context), "cuCtxSetCurrent");
  auto next = std::chrono::steady_clock::now();
  for (; !stop; ++trainer.steps) {
    {
      strobe::StepTraceMe me("train",
                             static_cast<std::int64_t>(trainer.steps) * options.threads + number);
      if (options.graph)
        Check(cuda.launch_graph(trainer.graph, trainer.stream), "cuGraphLaunch");
      else
        LaunchAll(cuda, trainer, options.kernels);
      Check(cuda.synchronize(trainer.stream), "cuStreamSynchronize");
    }
    if (options.per_second <= 0) continue;
    next += std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(1 / options.per_second));
    std::this_thread::sleep_until(next);
  }
}

void Write(const Cuda& cuda, const Options& options, const std::vector<Trainer>& trainers,
           const char* path) {
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) std::exit(2);
  std::fprintf(file, "%d %u\n", options.threads, options.kernels);
  for (const Trainer& trainer : trainers) {
    const std::uint64_t whole = kCapacity / options.kernels;
    const std::uint64_t steps = std::min(trainer.steps, whole);
    std::vector<char> stamps(steps * options.kernels * kStampBytes);
    Check(cuda.copy_back(stamps.data(), trainer.out, stamps.size()), "cuMemcpyDtoH");
    std::fprintf(file, "%llu\n", static_cast<unsigned long long>(steps));
    std::fwrite(stamps.data(), 1, stamps.size(), file);
  }
  if (std::fclose(file) != 0) std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "cuda_stamps FILE STEPS_PER_SECOND KERNELS THREADS calls|graph\n");
    return 2;
  }
  const Options options{std::atof(argv[2]), static_cast<std::uint32_t>(std::atoi(argv[3])),
                        std::atoi(argv[4]), std::string(argv[5]) == "graph"};
  std::signal(SIGTERM, [](int) { stop = true; });
  const Cuda cuda;
  Check(cuda.init(0), "cuInit");
  std::vector<Trainer> trainers(static_cast<std::size_t>(options.threads));
  for (Trainer& trainer : trainers) Prepare(cuda, options, trainer);
  std::printf("ready\n");
  std::fflush(stdout);
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; ++i)
    threads.emplace_back(
        [&, i] { Train(cuda, options, i, trainers[static_cast<std::size_t>(i)]); });
  for (std::thread& thread : threads) thread.join();
  Write(cuda, options, trainers, argv[1]);
  std::uint64_t steps = 0;
  for (const Trainer& trainer : trainers) steps += trainer.steps;
  std::printf("launched %llu\n", static_cast<unsigned long long>(steps * options.kernels));
  return 0;
}
