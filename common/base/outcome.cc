#include "common/base/outcome.h"

#include <algorithm>
#include <array>

namespace strobe {
namespace {

constexpr std::array<OutcomeInfo, 24> kTable = {{
    {Outcome::kUnknown, "Unknown", false, false, false, 0, "The capture has not ended.", "Wait."},
    {Outcome::kOk, "Ok", false, false, true, 0,
     "The trace has events, covers the window and is in the logdir.", "Nothing to do."},
    {Outcome::kSidecarMissing, "SidecarMissing", false, false, false, 90,
     "The pod is a target but has no strobe-sidecar container with a port named strobe.",
     "Label the pod template, or the namespace, strobe.dev/inject=true and recreate the pod."},
    {Outcome::kUnreachable, "Unreachable", true, true, false, 80,
     "The sidecar did not answer in time, or was shutting down, before the recording began.",
     "Check that something listens at this address; in a cluster, that the pod runs and that no "
     "NetworkPolicy blocks the operator."},
    {Outcome::kBusy, "Busy", true, true, false, 50,
     "Another capture or another profiler session holds the worker.",
     "Wait for the holder that the message names to end, or cancel it."},
    {Outcome::kNoSource, "NoSource", false, true, false, 70,
     "Neither a framework nor a profiler server nor the agent answers in the trainer.",
     "Wait until the trainer has loaded its framework. Without CUDA, annotate the pod template "
     "strobe.dev/python=true; or call jax.profiler.start_server(9012) or a similar function in the "
     "trainer."},
    {Outcome::kProfilerStartFailed, "ProfilerStartFailed", true, false, false, 60,
     "The framework's profiler refused to start or failed while it recorded.",
     "Read the framework's error in the message; the usual cause is a tracer level or a driver "
     "setting."},
    {Outcome::kLateStart, "LateStart", true, false, true, 40,
     "Recording began after the window's start or ended before its end.",
     "Ask for a longer start.delay or start.guard, or give the worker more CPU."},
    {Outcome::kNoDeviceActivity, "NoDeviceActivity", true, false, true, 30,
     "The trace has a device plane without any event.",
     "Capture for longer than one training step, while the job trains."},
    {Outcome::kNoHostEvents, "NoHostEvents", true, false, true, 30,
     "No line of the trace has any event.",
     "Capture while the job trains, with tracers.host not Disabled."},
    {Outcome::kDeviceTraceMissing, "DeviceTraceMissing", false, false, true, 35,
     "The job uses an accelerator but the trace has no device plane.",
     "Set tracers.device to Enabled and check that no other tool holds the device's profiler."},
    {Outcome::kPermissionDenied, "PermissionDenied", false, false, true, 45,
     "The driver does not let this user read GPU activity.",
     "Load the NVIDIA driver with NVreg_RestrictProfilingToAdminUsers=0, or run the trainer with "
     "CAP_SYS_ADMIN as root."},
    {Outcome::kCuptiUnavailable, "CuptiUnavailable", false, false, true, 45,
     "The CUPTI library could not be loaded.",
     "Add the CUPTI library of the job's CUDA version to the image."},
    {Outcome::kVersionMismatch, "VersionMismatch", false, false, false, 75,
     "The sidecar and the operator speak different protocols, or the requested options can crash a "
     "trainer of this version.",
     "Update the sidecar, the operator or the framework to the version that the message names, or "
     "request less."},
    {Outcome::kEventsDropped, "EventsDropped", true, false, true, 20,
     "The tracer's buffers overflowed; the message says how many events are missing.",
     "Shorten the duration or lower the tracer levels."},
    {Outcome::kTruncated, "Truncated", false, false, false, 55,
     "The trace is larger than the allowed size, or the program's own profiler ended the "
     "recording.",
     "The message says which. If it is too large, shorten the duration, lower the tracer levels or "
     "raise maxBytesPerWorker."},
    {Outcome::kSpoolFull, "SpoolFull", true, false, false, 65,
     "The sidecar has no space for another trace that is waiting for upload.",
     "Wait for uploads to finish, or raise strobe.dev/spool-size (--spool-size)."},
    {Outcome::kUploadDenied, "UploadDenied", false, false, false, 85,
     "The logdir's store denied access to the pod's identity.",
     "Allow the pod's service account (or user) to write below the logdir."},
    {Outcome::kUploadFailed, "UploadFailed", true, false, false, 85,
     "The trace was recorded but could not be written to the logdir.",
     "Read the store's error in the message, and check that the logdir exists and has free space."},
    {Outcome::kWorkerLost, "WorkerLost", true, false, false, 80,
     "The worker was armed and then could not be reached.",
     "Check why the pod or its sidecar ended."},
    {Outcome::kCancelled, "Cancelled", false, false, false, 10, "The capture was cancelled.",
     "Apply a new ProfileRequest."},
    {Outcome::kDeadlineExceeded, "DeadlineExceeded", true, false, false, 80,
     "The capture did not end before its deadline.",
     "Shorten the duration or raise collectTimeout: collecting and writing the trace took too "
     "long."},
    {Outcome::kAborted, "Aborted", false, false, false, 57,
     "The capture was stopped because the trainer came close to its memory limit or its steps "
     "became too slow.",
     "Lower the tracer levels, give the trainer more memory, or change abortWhen."},
    {Outcome::kWorkerMissing, "WorkerMissing", true, false, false, 88,
     "The target expects this worker, but it has no pod, its pod has no such container, or this "
     "process of the pod has not announced itself.",
     "Check why the job's pods are not created, and check target.expectedWorkers and "
     "target.container. Raise start.readyTimeout for pods that start late. For a process, check "
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
