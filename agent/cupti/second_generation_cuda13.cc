// Compiled with CUDA 13's headers. It asserts that second_generation.h, which is also compiled with
// CUDA 12's headers, declares what CUDA 13 has.
#include "agent/cupti/second_generation.h"

namespace {

using Ours = strobe::agent::SubscriberParams;
using Theirs = CUpti_SubscriberParams;

static_assert(sizeof(Ours) == sizeof(Theirs));
static_assert(offsetof(Ours, struct_size) == offsetof(Theirs, structSize));
static_assert(offsetof(Ours, subscriber_name) == offsetof(Theirs, subscriberName));
static_assert(offsetof(Ours, old_subscriber_name) == offsetof(Theirs, oldSubscriberName));
static_assert(offsetof(Ours, old_subscriber_size) == offsetof(Theirs, oldSubscriberSize));
static_assert(offsetof(Ours, allow_multiple_subscribers) ==
              offsetof(Theirs, allowMultipleSubscribers));
static_assert(offsetof(Ours, padding) == offsetof(Theirs, padding));
static_assert(strobe::agent::kAttributeThreadIdType == CUPTI_ACTIVITY_ATTR_THREAD_ID_TYPE);

}  // namespace
