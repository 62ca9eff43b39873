"""Waits until an API server applies roles and bindings. It learns of them by a watch, which on a busy machine lags behind their creation."""

from .processes import wait_until


def _may(kubectl, verb, resource, user, groups, name, namespace):
    resource, _, group = resource.partition(".")
    resource, _, part = resource.partition("/")
    what = {"namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": part, "name": name}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": user, "groups": [*groups], "resourceAttributes": what}}
    return kubectl.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]


def await_right(kubectl, verb, resource, user="", groups=(), name="", namespace=None, granted=True):
    """Waits until the user, or a member of the groups, may do this in kubectl's namespace, or with `granted=False` until they may not any more.

    `resource` has its group as for `kubectl auth can-i`: "profilerequests.strobe.dev". The namespace "" stands for all.
    """
    space = kubectl.namespace if namespace is None else namespace
    wait_until(lambda: _may(kubectl, verb, resource, user, groups, name, space) == granted, 30,
               f"{'the' if granted else 'the end of the'} right of {user or groups} to {verb} {f'{resource} {name}'.strip()} in {space or 'all namespaces'}")


def _who(subject, space):
    if subject["kind"] == "Group":
        return {"groups": [subject["name"]]}
    account = f"system:serviceaccount:{subject.get('namespace', space)}:" if subject["kind"] == "ServiceAccount" else ""
    return {"user": account + subject["name"]}


def await_bindings(kubectl, *objects):
    """Waits until the (Cluster)RoleBindings among these objects have their effect. Their roles must be among them too."""
    space_of = lambda made: made["metadata"].get("namespace", kubectl.namespace)  # noqa: E731
    roles = {made["metadata"]["name"]: made for made in objects if made["kind"] == "ClusterRole"}
    roles |= {(space_of(made), made["metadata"]["name"]): made for made in objects if made["kind"] == "Role"}
    for binding in (made for made in objects if made["kind"] in ("ClusterRoleBinding", "RoleBinding")):
        space, role = "" if binding["kind"] == "ClusterRoleBinding" else space_of(binding), binding["roleRef"]
        rule = roles[role["name"] if role["kind"] == "ClusterRole" else (space, role["name"])]["rules"][0]  # A role takes effect as a whole.
        resource = ".".join(filter(None, (rule["resources"][0], rule["apiGroups"][0])))
        for subject in binding["subjects"]:
            await_right(kubectl, rule["verbs"][0], resource, **_who(subject, space), name=rule.get("resourceNames", [""])[0], namespace=space)


def grant(kubectl, name, rules, *subjects):
    """Makes a Role of kubectl's namespace, binds it to the subjects, and waits until they have its rights. Both objects have this name."""
    group = "rbac.authorization.k8s.io"
    made = ({"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules},
            {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": {"name": name},
             "roleRef": {"apiGroup": group, "kind": "Role", "name": name}, "subjects": list(subjects)})
    kubectl.apply(*made)
    await_bindings(kubectl, *made)


def user_named(name):
    """A user as the subject of a binding."""
    return {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}


def withdraw(kubectl, name):
    """Deletes the user's RoleBinding of this name, and waits until the user may not profile pods any more."""
    kubectl.run("delete", "rolebinding", name)
    await_right(kubectl, "profile", "pods", user=name, granted=False)
