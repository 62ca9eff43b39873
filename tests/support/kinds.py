"""Where an API server keeps objects of a kind."""

# Kind: (path of its group and version, plural, whether objects are in namespaces, other names that tests use).
_KINDS = {
    "Pod": ("/api/v1", "pods", True, ("pod",)),
    "Secret": ("/api/v1", "secrets", True, ("secret",)),
    "ConfigMap": ("/api/v1", "configmaps", True, ("configmap",)),
    "Service": ("/api/v1", "services", True, ("service",)),
    "ServiceAccount": ("/api/v1", "serviceaccounts", True, ("serviceaccount",)),
    "Namespace": ("/api/v1", "namespaces", False, ("namespace",)),
    "Node": ("/api/v1", "nodes", False, ("node",)),
    "Job": ("/apis/batch/v1", "jobs", True, ("job",)),
    "Deployment": ("/apis/apps/v1", "deployments", True, ("deployment",)),
    "Event": ("/apis/events.k8s.io/v1", "events.events.k8s.io", True, ()),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles", True, ("role",)),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", True, ("rolebinding",)),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", False, ("clusterrole",)),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False, ("clusterrolebinding",)),
    "MutatingWebhookConfiguration": ("/apis/admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", False, ("mutatingwebhookconfiguration",)),
    "ValidatingWebhookConfiguration": ("/apis/admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", False, ("validatingwebhookconfiguration",)),
    "CustomResourceDefinition": ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", False, ("crd", "crds")),
    "ProfileRequest": ("/apis/strobe.dev/v1alpha1", "profilerequests", True, ("profilerequest", "profreq")),
    "ProfileSchedule": ("/apis/strobe.dev/v1alpha1", "profileschedules", True, ("profileschedule", "profsched")),
    "ProfileTrigger": ("/apis/strobe.dev/v1alpha1", "profiletriggers", True, ("profiletrigger", "proftrig")),
    "ProfilePolicy": ("/apis/strobe.dev/v1alpha1", "profilepolicies", False, ("profilepolicy", "profpol")),
}
_NAMES = {name: kind for kind, (_, plural, _, others) in _KINDS.items() for name in (plural, *others)}


def collection(name, namespace):
    """The path of all objects of the kind with this name for kubectl, in the namespace or, with None, in all. None if the kind is not known."""
    kind = _NAMES.get(name)
    return kind and _collection(kind, namespace)


def collection_of(made, namespace):
    """The path at which this object is created; None if its kind is not known."""
    group = f"/api/{made['apiVersion']}" if "/" not in made["apiVersion"] else f"/apis/{made['apiVersion']}"
    kind = made["kind"]
    return _collection(kind, made["metadata"].get("namespace", namespace)) if _KINDS.get(kind, ("",))[0] == group else None


def _collection(kind, namespace):
    group, plural, namespaced, _ = _KINDS[kind]
    return f"{group}/{f'namespaces/{namespace}/' if namespaced and namespace else ''}{plural.split('.')[0]}"
