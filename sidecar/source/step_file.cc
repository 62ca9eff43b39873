#include "sidecar/source/step_file.h"

#include <unistd.h>

#include "agent/wire/layout.h"
#include "collector/storage/beneath.h"
#include "sidecar/source/told_steps.h"

namespace strobe {

// Reads a copy: memory that is mapped ends the reader when the process cuts its file.
void AddStepsOf(const FileDescriptor& agent_directory, const Announcement& process,
                std::int64_t wall_minus_monotonic_ns, std::vector<v1::StepPace>& told) {
  if (process.steps.empty()) return;
  const absl::StatusOr<FileDescriptor> file = OpenFileIn(agent_directory, process.steps);
  if (!file.ok()) return;
  wire::StepFile content{};
  if (pread(file->get(), &content, sizeof content, 0) != ssize_t{sizeof content} ||
      content.magic != wire::kStepMagic)
    return;
  v1::StepPace who;
  who.set_process(process.label());
  who.set_teller(process.socket);
  who.set_source(v1::SOURCE_FRAMEWORK);
  AddToldSteps(content.loops, who, wall_minus_monotonic_ns, told);
}

}  // namespace strobe
