// libtorch_loop NOTES [ask]: a real training loop on PyTorch's C++ library, without Python, that
// knows nothing of Strobe. With `ask` it makes PyTorch look for Kineto's daemon.
//
// Writes NOTES as torch_loop.py does: the first line has the operators of one step, in JSON and as
// PyTorch itself calls them; each other line is "NUMBER BEGIN END" of a step by the wall clock, in
// ns. Prints "ready" before the first step.
#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sub.h>
#include <ATen/record_function.h>
#include <torch/csrc/profiler/kineto_client_interface.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace {

// Linear regression, with its gradient by hand.
struct Model {
  const at::Tensor batch = at::randn({32, 64}), transposed = batch.t().contiguous();
  const at::Tensor truth = at::mm(batch, at::randn({64, 16}));
  at::Tensor weights = at::randn({64, 16});

  void Step() {
    const at::Tensor error = at::sub(at::mm(batch, weights), truth);
    weights.sub_(at::mm(transposed, error), 0.001);
  }
};

std::map<std::string, int> counted;

std::unique_ptr<at::ObserverContext> Count(const at::RecordFunction& function) {
  ++counted[function.name()];
  return nullptr;
}

std::string OperatorsOf(Model& model) {
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(&Count));
  model.Step();
  at::removeCallback(handle);
  std::string json;
  for (const auto& [name, count] : counted)
    json += (json.empty() ? "{\"" : ", \"") + name + "\": " + std::to_string(count);
  return json + "}";
}

long long Now() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (argc > 2 && std::string_view(argv[2]) == "ask") torch::global_kineto_init();
  at::set_num_threads(1);
  Model model;
  std::FILE* notes = std::fopen(argv[1], "w");
  if (notes == nullptr) return 1;
  std::setvbuf(notes, nullptr, _IOLBF, 0);
  std::fprintf(notes, "%s\n", OperatorsOf(model).c_str());
  std::puts("ready");
  std::fflush(stdout);
  for (long long step = 0;; ++step) {
    const long long begin = Now();
    model.Step();
    std::fprintf(notes, "%lld %lld %lld\n", step, begin, Now());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}
