#include "sidecar/source/agent/step_file.h"

#include <unistd.h>

#include "collector/store/beneath.h"
#include "sidecar/source/base/reported_steps.h"

namespace strobe::source {

bool ReadStepFile(const FileDescriptor& agent_directory, const Announcement& process,
                  wire::StepFile& content) {
  if (process.steps.empty()) return false;
  const absl::StatusOr<FileDescriptor> file = storage::OpenFileIn(agent_directory, process.steps);
  return file.ok() && pread(file->get(), &content, sizeof content, 0) == ssize_t{sizeof content} &&
         content.magic == wire::kStepMagic;
}

void AddStepsOf(const FileDescriptor& agent_directory, const Announcement& process,
                std::int64_t wall_minus_monotonic_ns, std::vector<v1::StepPace>& told) {
  wire::StepFile content{};
  if (!ReadStepFile(agent_directory, process, content)) return;
  v1::StepPace who;
  who.set_process(process.label());
  who.set_teller(process.socket);
  who.set_source(v1::SOURCE_FRAMEWORK);
  AddReportedSteps(content.loops, who, wall_minus_monotonic_ns, told);
}

}  // namespace strobe::source
