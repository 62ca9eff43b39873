// Strobe's names in Kubernetes, and names of Kubernetes that several files use. Labels, annotations
// and finalizers are part of the API: if one is renamed here, objects that carry the old name are
// not recognized any more.
#pragma once
#include <cstddef>

namespace strobe::kube {

inline constexpr char kApiGroup[] = "strobe.dev";
inline constexpr char kApiVersion[] = "strobe.dev/v1alpha1";
inline constexpr char kRequestKind[] = "ProfileRequest";
inline constexpr char kRequestsResource[] = "profilerequests";
inline constexpr char kPoliciesResource[] = "profilepolicies";
// The names of their CustomResourceDefinitions. kubectl gets them too, because resources of other
// groups may have the same short name.
inline constexpr char kRequestsDefinition[] = "profilerequests.strobe.dev";
inline constexpr char kPoliciesDefinition[] = "profilepolicies.strobe.dev";
// The verb that people need on the pods that a capture records.
inline constexpr char kProfileVerb[] = "profile";
// The operator, in the events that it writes.
inline constexpr char kReportingController[] = "strobe.dev/operator";

// The injected container, and the name of its port for captures.
inline constexpr char kSidecarContainer[] = "strobe-sidecar";
inline constexpr char kSidecarPort[] = "strobe";

// What the names of Strobe's labels and annotations begin with.
inline constexpr char kNamePrefix[] = "strobe.dev/";
// Label of pods and namespaces that opt in to injection, with value "true". On a pod, "false" opts
// out.
inline constexpr char kInjectLabel[] = "strobe.dev/inject";
// Label of pods that were injected. NetworkPolicies and the operator find workers by it.
inline constexpr char kInjectedLabel[] = "strobe.dev/injected";
// JSON, written by injection: {"version": ..., "hash": ..., "containers": [...]}. On the host's
// network also "ports": those that the sidecar may serve captures on.
inline constexpr char kStatusAnnotation[] = "strobe.dev/status";
// Written by injection instead of the above: why the pod has no sidecar, human-readable.
inline constexpr char kNotInjectedAnnotation[] = "strobe.dev/not-injected";
// The most bytes of it that are written and read: anybody who may write the pod can set it.
inline constexpr std::size_t kMaxNotInjectedBytes = 512;
// The image with the program `strobe`, which `kubectl strobe view` runs. Injection writes it where
// the pod has none.
inline constexpr char kViewerImageAnnotation[] = "strobe.dev/viewer-image";
// Names of the containers that train, separated by commas. Absent: the containers that request an
// accelerator.
inline constexpr char kContainersAnnotation[] = "strobe.dev/containers";
// "true": injection adds Strobe's Python package to the trainer's PYTHONPATH.
inline constexpr char kPythonAnnotation[] = "strobe.dev/python";
// "true": the sidecar is the daemon of Kineto's on-demand protocol, and processes with PyTorch look
// for it.
inline constexpr char kKinetoAnnotation[] = "strobe.dev/kineto-daemon";
// "calls" or "times": NCCL and RCCL load the agent as their profiler plugin, which tells the calls
// of collectives at all times and, with "times", the devices' times during captures.
inline constexpr char kCollectivesAnnotation[] = "strobe.dev/collectives";
// Kubernetes' own label of the pods of a Deployment; the names of its ReplicaSets end with it.
inline constexpr char kTemplateHashLabel[] = "pod-template-hash";
// A worker's rank, as a label or an annotation. It overrides all other evidence; see ranks.h.
inline constexpr char kRankKey[] = "strobe.dev/rank";
inline constexpr char kProcessesKey[] = "strobe.dev/processes";
// Label of a viewer's Job and pod: the Job's name.
inline constexpr char kViewerLabel[] = "strobe.dev/viewer";

// JSON: who created the request, when that was sealed, and the seal. The webhook overwrites any
// value that a user has set.
inline constexpr char kRequesterAnnotation[] = "strobe.dev/requester";
// Label of a request that a ProfileSchedule created: the schedule's name.
inline constexpr char kScheduleLabel[] = "strobe.dev/schedule";
// Annotation of such a request: when it was due.
inline constexpr char kScheduledTimeAnnotation[] = "strobe.dev/scheduled-time";
// Labels of a request that a ProfileTrigger created: the trigger's name, and a hash of the job.
inline constexpr char kTriggerLabel[] = "strobe.dev/trigger";
inline constexpr char kTriggeredJobLabel[] = "strobe.dev/triggered-job";
// Annotations of such a request: "kind/name" of the job, the alert's name, and which alert it was
// (see AlertId).
inline constexpr char kTriggeredJobAnnotation[] = "strobe.dev/triggered-job";
inline constexpr char kAlertNameAnnotation[] = "strobe.dev/alert-name";
inline constexpr char kAlertAnnotation[] = "strobe.dev/alert";
// What a worker's sidecar saw, if a sign started the capture.
inline constexpr char kSignAnnotation[] = "strobe.dev/sign";
// A request has it while an attempt is live, or until its runs are reclaimed.
inline constexpr char kFinalizer[] = "strobe.dev/capture";

// Audience of the service account tokens that sidecars show when they enroll.
inline constexpr char kTokenAudience[] = "strobe";

// Labels that the controllers of others write, or that tools of others read.
inline constexpr char kAppNameLabel[] = "app.kubernetes.io/name";
inline constexpr char kJobSetLabel[] = "jobset.sigs.k8s.io/jobset-name";

}  // namespace strobe::kube
