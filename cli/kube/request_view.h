// ProfileRequests as people read them: progress, verdict, and lists. Pure.
#pragma once
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "operator/objects/request.h"

namespace strobe::cluster {

// What the capture does now: "WaitingForReadiness: attempt 1 of 3; waits for ...", "Recording:
// attempt 1 of 3; 16/16 workers armed". A further line for each state that workers are in names
// them: "  Recording (16): llm-0, llm-1, ...". Empty once the request is finished.
std::string ProgressText(const objects::ProfileRequest& request, WallTime now);

// What became of a finished request: the workers that did not end Ok with cause, remedy and
// lateness, then skew, steps, synchronization and the run, with how to open it. For a request that
// is not finished: what its workers do.
std::string VerdictText(const objects::ProfileRequest& request);
// "AllWorkersOk: 16 of 16 workers Ok"; for a request that is not finished, what it does now, in one
// line.
std::string ResultText(const objects::ProfileRequest& request, WallTime now);
// Why the job stands still, as sentences, with where the evidence is; why that is not known, if the
// request ended without a verdict.
std::string StallText(const objects::ProfileRequest& request);
// An object with class, confidence, verdict, details, culprits, request and run.
std::string StallJson(const objects::ProfileRequest& request);
// Whether there is a verdict.
bool HasVerdict(const objects::ProfileRequest& request);
// Whether enough workers ended Ok.
bool Succeeded(const objects::ProfileRequest& request);

// A line for each request with result, workers, skew, size, age and run, the newest first; with the
// namespace if `all_namespaces`.
std::vector<std::vector<std::string>> RequestRows(std::vector<objects::ProfileRequest> requests,
                                                  bool all_namespaces, WallTime now);
// As kubectl shows ages: "45s", "3m", "5h", "12d".
std::string AgeText(Nanos age);

// What happens to the files of a request's run when the request is deleted, and how to delete them.
// Empty without a run.
std::string RunAfterDeletion(const objects::ProfileRequest& request);

}  // namespace strobe::cluster
