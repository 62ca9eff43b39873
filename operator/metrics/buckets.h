// What several groups of metrics share.
#pragma once
#include <prometheus/histogram.h>

#include <chrono>

#include "common/base/clock.h"

namespace strobe::metrics {

// The buckets that controller-runtime uses.
inline const prometheus::Histogram::BucketBoundaries kReconcileBuckets = {
    0.005, 0.01, 0.025, 0.05, 0.1,  0.15, 0.2,  0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6,
    0.7,   0.8,  0.9,   1,    1.25, 1.5,  1.75, 2,    2.5, 3,    3.5, 4,    4.5, 5,
    6,     7,    8,     9,    10,   15,   20,   25,   30,  40,   50,  60};

inline double Seconds(Nanos duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace strobe::metrics
