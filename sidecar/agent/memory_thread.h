// Tells the sidecar, while it asks, how near the trainer's container is to its memory limit. There
// is a thread only as long as somebody asks.
#pragma once
#include "sidecar/wire/ring_file.h"

namespace strobe::agent {

// When the sidecar's question changed: cheap enough for every record.
bool MemoryQuestionChanged(const wire::FileHeader& header);
// Answers it, on a thread of its own that ends with the question. Safe at any time.
void AnswerMemoryQuestion(wire::FileHeader& header);
// In the child of a fork, which has no thread.
void ForgetMemoryThread();

}  // namespace strobe::agent
