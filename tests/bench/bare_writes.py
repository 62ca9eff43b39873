"""The writes of captures, made by a client that does nothing else: the most captures that an API server allows on this machine."""

MERGE, APPLY, PLAIN = "application/merge-patch+json", "application/apply-patch+yaml", "application/json"
VERSION = "strobe.dev/v1alpha1"


def _event(team, name, number):
    return {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": f"{name}.bare.{number}", "namespace": team},
            "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "bare", "reportingInstance": "bare-0", "action": "Arm",
            "reason": "CaptureArmed", "type": "Normal", "note": "2 of 2 workers are armed",
            "regarding": {"apiVersion": VERSION, "kind": "ProfileRequest", "namespace": team, "name": name}}


def of_capture(team, name, request, status, statuses, events):
    """The writes in their order, as (method, path, type, body). `status` is that of a capture that has ended; those before it are smaller."""
    requests = f"/apis/{VERSION}/namespaces/{team}/profilerequests"
    written = [{"attempt": 1, "queuePosition": number + 1} for number in range(statuses - 1)] + [status]
    return [("POST", requests, PLAIN, request),
            ("PATCH", f"{requests}/{name}", MERGE, {"metadata": {"finalizers": ["strobe.dev/capture"]}}),
            *[("PATCH", f"{requests}/{name}/status?fieldManager=bare&force=true", APPLY,
               {"apiVersion": VERSION, "kind": "ProfileRequest", "metadata": {"name": name}, "status": each}) for each in written],
            *[("POST", f"/apis/events.k8s.io/v1/namespaces/{team}/events", PLAIN, _event(team, name, number)) for number in range(events)],
            ("PATCH", f"{requests}/{name}", MERGE, {"metadata": {"finalizers": []}})]
