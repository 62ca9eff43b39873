#include "common/protocol/outcome.h"

#include <algorithm>
#include <array>

namespace strobe {
namespace {

constexpr std::array<OutcomeInfo, 24> kTable = {{
    {.outcome = Outcome::kUnknown,
     .name = "Unknown",
     .badness = 0,
     .detected = "The capture has not ended.",
     .remedy = "Wait."},
    {.outcome = Outcome::kOk,
     .name = "Ok",
     .has_trace = true,
     .badness = 0,
     .detected = "The trace has events, covers the window and is in the logdir.",
     .remedy = "Nothing to do."},
    {.outcome = Outcome::kSidecarMissing,
     .name = "SidecarMissing",
     .badness = 90,
     .detected =
         "The pod is a target but has no strobe-sidecar container with a port named strobe.",
     .remedy =
         "Label the pod template, or the namespace, strobe.dev/inject=true and recreate the pod."},
    {.outcome = Outcome::kUnreachable,
     .name = "Unreachable",
     .retryable = true,
     .waitable = true,
     .pod_may_explain = true,
     .badness = 80,
     .detected =
         "The sidecar did not answer in time, or was shutting down, before the recording began.",
     .remedy = "Check that something listens at this address; in a cluster, that the pod runs and "
               "that no "
               "NetworkPolicy blocks the operator."},
    {.outcome = Outcome::kBusy,
     .name = "Busy",
     .retryable = true,
     .waitable = true,
     .badness = 50,
     .detected = "Another capture or another profiler session holds the worker.",
     .remedy =
         "Wait for the holder that the message names (start.readyTimeout, --ready-timeout), or "
         "cancel it."},
    {.outcome = Outcome::kNoSource,
     .name = "NoSource",
     .waitable = true,
     .pod_may_explain = true,
     .badness = 70,
     .detected = "Neither a framework nor a profiler server nor the agent answers in the trainer.",
     .remedy =
         "Wait until the trainer has loaded its framework. Without CUDA, annotate the pod template "
         "strobe.dev/python=true; or call jax.profiler.start_server(9012) or a similar function in "
         "the "
         "trainer."},
    {.outcome = Outcome::kProfilerStartFailed,
     .name = "ProfilerStartFailed",
     .retryable = true,
     .pod_may_explain = true,
     .badness = 60,
     .detected = "The framework's profiler refused to start or failed while it recorded.",
     .remedy =
         "Read the framework's error in the message; the usual cause is a tracer level or a driver "
         "setting."},
    {.outcome = Outcome::kLateStart,
     .name = "LateStart",
     .retryable = true,
     .has_trace = true,
     .badness = 40,
     .detected = "Recording began after the window's start or ended before its end.",
     .remedy = "Ask for a longer start.delay or start.guard, or give the worker more CPU."},
    {.outcome = Outcome::kNoDeviceActivity,
     .name = "NoDeviceActivity",
     .retryable = true,
     .has_trace = true,
     .badness = 30,
     .detected = "The trace has a device plane without any event.",
     .remedy = "Capture for longer than one training step, while the job trains."},
    {.outcome = Outcome::kNoHostEvents,
     .name = "NoHostEvents",
     .retryable = true,
     .has_trace = true,
     .badness = 30,
     .detected = "No line of the trace has any event.",
     .remedy = "Capture while the job trains or the server has requests, with tracers.host not "
               "Disabled. Of a job that hangs, strobe why finds the cause."},
    {.outcome = Outcome::kDeviceTraceMissing,
     .name = "DeviceTraceMissing",
     .has_trace = true,
     .badness = 35,
     .detected = "The job uses an accelerator but the trace has no device plane.",
     .remedy =
         "Set tracers.device to Enabled and check that no other tool holds the device's profiler."},
    {.outcome = Outcome::kPermissionDenied,
     .name = "PermissionDenied",
     .has_trace = true,
     .badness = 45,
     .detected = "The driver does not let this user read GPU activity.",
     .remedy = "Load the NVIDIA driver with NVreg_RestrictProfilingToAdminUsers=0, or run the "
               "trainer with "
               "CAP_SYS_ADMIN as root."},
    {.outcome = Outcome::kCuptiUnavailable,
     .name = "CuptiUnavailable",
     .has_trace = true,
     .badness = 45,
     .detected = "The CUPTI library could not be loaded.",
     .remedy = "Add the CUPTI library of the job's CUDA version to the image."},
    {.outcome = Outcome::kVersionMismatch,
     .name = "VersionMismatch",
     .badness = 75,
     .detected = "The sidecar and the operator speak different protocols, or the requested options "
                 "can crash a "
                 "trainer of this version.",
     .remedy = "Update the sidecar, the operator or the framework to the version that the message "
               "names, or "
               "request less."},
    {.outcome = Outcome::kEventsDropped,
     .name = "EventsDropped",
     .retryable = true,
     .has_trace = true,
     .badness = 20,
     .detected = "The tracer's buffers overflowed, or a part of its file cannot be read; the "
                 "message says how "
                 "many events are missing.",
     .remedy = "Shorten the duration or lower the tracer levels."},
    {.outcome = Outcome::kTruncated,
     .name = "Truncated",
     .badness = 55,
     .detected = "The trace is larger than the allowed size, the program's own profiler ended the "
                 "recording, or the job is too large for its evidence.",
     .remedy = "The message says which. If it is too large, shorten the duration, lower the tracer "
               "levels or "
               "raise maxBytesPerWorker."},
    {.outcome = Outcome::kSpoolFull,
     .name = "SpoolFull",
     .retryable = true,
     .badness = 65,
     .detected = "The sidecar has no space for another trace that is waiting for upload.",
     .remedy = "Wait for uploads to finish, or raise strobe.dev/spool-size (--spool-size)."},
    {.outcome = Outcome::kUploadDenied,
     .name = "UploadDenied",
     .badness = 85,
     .detected = "The logdir's store denied access to the pod's identity.",
     .remedy = "Allow the pod's service account (or user) to write below the logdir."},
    {.outcome = Outcome::kUploadFailed,
     .name = "UploadFailed",
     .retryable = true,
     .badness = 85,
     .detected = "The trace could not be written to the logdir.",
     .remedy = "Read the store's error in the message, and check that the logdir exists and has "
               "free space."},
    {.outcome = Outcome::kWorkerLost,
     .name = "WorkerLost",
     .retryable = true,
     .pod_may_explain = true,
     .badness = 80,
     .detected = "The worker was armed and then could not be reached.",
     .remedy = "Check why the pod or its sidecar ended."},
    {.outcome = Outcome::kCancelled,
     .name = "Cancelled",
     .badness = 10,
     .detected = "The capture was cancelled.",
     .remedy = "Request the capture again."},
    {.outcome = Outcome::kDeadlineExceeded,
     .name = "DeadlineExceeded",
     .retryable = true,
     .pod_may_explain = true,
     .badness = 80,
     .detected = "The capture did not end before its deadline.",
     .remedy =
         "Shorten the duration or raise collectTimeout: collecting and writing the trace took too "
         "long."},
    {.outcome = Outcome::kAborted,
     .name = "Aborted",
     .badness = 57,
     .detected =
         "The capture was stopped because the trainer came close to its memory limit or its steps "
         "became too slow.",
     .remedy = "Lower the tracer levels, give the trainer more memory, or change abortWhen."},
    {.outcome = Outcome::kWorkerMissing,
     .name = "WorkerMissing",
     .retryable = true,
     .badness = 88,
     .detected = "The target expects this worker, but it has no pod, its pod has no such "
                 "container, or this "
                 "process of the pod has not announced itself.",
     .remedy = "Check why the job's pods are not created, and check target.expectedWorkers and "
               "target.container. Raise start.readyTimeout for pods that start late. For a "
               "process, check "
               "that it has imported its framework, and check strobe.dev/processes."},
}};

}  // namespace

std::span<const OutcomeInfo> AllOutcomes() { return kTable; }

const OutcomeInfo& Describe(Outcome outcome) {
  const auto index = static_cast<std::size_t>(outcome);
  return index < kTable.size() ? kTable[index] : kTable[0];
}

std::string_view Name(Outcome outcome) { return Describe(outcome).name; }

Outcome OutcomeOfName(std::string_view name) {
  const auto found = std::find_if(kTable.begin(), kTable.end(),
                                  [name](const OutcomeInfo& info) { return info.name == name; });
  return found == kTable.end() ? Outcome::kUnknown : found->outcome;
}

}  // namespace strobe
