#include "sidecar/source/kineto/kineto_order.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/strings.h"
#include "common/protocol/device_mode.h"

namespace strobe::source {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kTraceSuffixOfKineto = ".json";

void Add(std::string& list, std::string_view names) {
  list += StrCat(list.empty() ? "" : ",", names);
}

// PyTorch records calls of modules with all other Python functions or not at all.
bool WantsStacks(const v1::Tracers& tracers) {
  return tracers.python() > 0 || tracers.stacks() || tracers.modules();
}

const char* Bool(bool value) { return value ? "true" : "false"; }

// Only names that all versions know: with an unknown one, Kineto records no operator at all.
std::string ActivitiesFor(const v1::Tracers& tracers) {
  std::string names;
  const bool only_kernels = WantsOnlyKernels(tracers.device());
  if (tracers.host() > 0 && !only_kernels) Add(names, "cpu_op,user_annotation");
  if (tracers.device() > 0) Add(names, "kernel,gpu_memcpy,gpu_memset");
  if (tracers.device() > 0 && !only_kernels)
    Add(names, "gpu_user_annotation,cuda_runtime,cuda_driver");
  if (WantsStacks(tracers)) Add(names, "python_function");
  if (tracers.memory()) Add(names, "cpu_instant_event");  // Allocations are such events.
  // No name would mean all types.
  return names.empty() ? "user_annotation" : names;
}

}  // namespace

Nanos KinetoOrder::Ahead() const {
  // On a busy machine, Kineto's thread gets the order, and then its turn, later than it should.
  constexpr Nanos kTick = std::chrono::seconds(1), kMargin = milliseconds(250);
  return warm_up + kTick + kMargin;
}

KinetoOrder MakeKinetoOrder(const v1::CapturePlan& plan, MonoTime start, Nanos max_duration,
                            std::string path) {
  const v1::Tracers& tracers = plan.tracers();
  return {
      .path = std::move(path),
      .capture_id = plan.capture_id(),
      .start = start,
      .duration = std::min(Nanos{plan.duration_ns()}, max_duration) + 2 * Nanos{plan.guard_ns()},
      .warm_up = tracers.device() > 0 ? kKinetoWarmUp : std::chrono::seconds(0),
      .activities = ActivitiesFor(tracers),
      // FLOPs are counted from the shapes when the trace is converted.
      .shapes = tracers.shapes() || tracers.flops(),
      // Without stacks there is no Python function in the trace.
      .stacks = WantsStacks(tracers),
      .memory = tracers.memory()};
}

std::string KinetoText(const KinetoOrder& order, WallTime start) {
  const auto begin = std::chrono::floor<milliseconds>(start);
  // From the rounded start to the first whole millisecond after the end.
  const auto length = std::chrono::ceil<milliseconds>(start + order.duration) - begin;
  return StrCat("ACTIVITIES_LOG_FILE=", order.path,                         //
                "\nREQUEST_TRACE_ID=", order.capture_id,                    //
                "\nPROFILE_START_TIME=", begin.time_since_epoch().count(),  //
                "\nACTIVITIES_DURATION_MSECS=", length.count(),             //
                "\nACTIVITIES_WARMUP_PERIOD_SECS=", order.warm_up.count(),  //
                "\nACTIVITY_TYPES=", order.activities,                      //
                "\nPROFILE_REPORT_INPUT_SHAPES=", Bool(order.shapes),       //
                "\nPROFILE_WITH_STACK=", Bool(order.stacks),                //
                "\nPROFILE_PROFILE_MEMORY=", Bool(order.memory),            //
                "\nPROFILE_WITH_FLOPS=false\nPROFILE_WITH_MODULES=false\n");
}

std::string KinetoTracePath(const KinetoOrder& order, std::uint32_t pid) {
  const std::string_view stem =
      std::string_view(order.path).substr(0, order.path.size() - kTraceSuffixOfKineto.size());
  return StrCat(stem, "_", pid, kTraceSuffixOfKineto);
}

std::string WhyNoKinetoDirectory(const std::string& directory) {
  // A client's socket in the directory has 52 characters and a NUL after the directory's name.
  constexpr std::size_t kMaxDirectory = 108 - 54;
  if (!directory.starts_with('/')) return "is not an absolute path";
  if (directory.size() > kMaxDirectory)
    return StrCat("is longer than ", kMaxDirectory, " characters");
  if (directory.find_first_of("=#\n\r") != std::string::npos)
    return "contains a character that Kineto's configuration cannot represent (= or #)";
  // Kineto puts the process ID before the first ".json", and refuses paths with "..".
  if (Contains(directory, ".json") || Contains(directory, ".."))
    return "contains \".json\" or \"..\", which Kineto does not accept";
  return "";
}

}  // namespace strobe::source
