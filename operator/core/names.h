// The names under which Strobe appears in Kubernetes objects. Labels, annotations and finalizers
// are part of the API: a name that is changed here is lost on every object that carries it.
#pragma once

namespace strobe {

inline constexpr char kApiVersion[] = "strobe.dev/v1alpha1";

// The container that is injected, and its port for captures.
inline constexpr char kSidecarContainer[] = "strobe-sidecar";
inline constexpr char kSidecarPort[] = "strobe";

// Label of pods and namespaces that are to be injected, with value "true"; a pod's "false" beats
// both.
inline constexpr char kInjectLabel[] = "strobe.dev/inject";
// Label of pods that were injected. NetworkPolicies and the operator find workers by it.
inline constexpr char kInjectedLabel[] = "strobe.dev/injected";
// What injection wrote down: {"version": ..., "hash": ..., "containers": [...]}.
inline constexpr char kStatusAnnotation[] = "strobe.dev/status";
// The trainer's containers, by name, separated by commas. Absent: those that ask for an
// accelerator.
inline constexpr char kContainersAnnotation[] = "strobe.dev/containers";
// "true": the trainer's PYTHONPATH leads to the Python package.
inline constexpr char kPythonAnnotation[] = "strobe.dev/python";
// A worker's rank, where no framework's own label or variable tells it.
inline constexpr char kRankKey[] = "strobe.dev/rank";

// JSON: who asked for a capture, when that was sealed, and the seal. The webhook writes it over
// whatever is there.
inline constexpr char kRequesterAnnotation[] = "strobe.dev/requester";
// On a request while an attempt is live, or while its run is to be reclaimed with it.
inline constexpr char kFinalizer[] = "strobe.dev/capture";

// Audience of the service account tokens that sidecars show when they enroll.
inline constexpr char kTokenAudience[] = "strobe";

}  // namespace strobe
