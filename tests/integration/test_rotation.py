"""The operator's own token and the API server's authority change during a watch."""

import json

import pytest

from tests.support.control_plane import ControlPlane, Kubectl
from tests.support.operator import Operator, condition, profile_request, wait_finished
from tests.support.tls import issue, make_authority


@pytest.fixture
def own_plane(group, tmp_path):
    plane = ControlPlane(group, tmp_path / "plane")
    tokens = tmp_path / "tokens.csv"
    plane.apiserver_flags = {"token-auth-file": tokens}
    tokens.write_text('first,strobe,1,"system:masters"\n')
    plane.tokens = tokens
    return plane.start()


def test_token_and_authority_rotate_in_mid_watch(group, own_plane, make_workers, tmp_path, logdir):
    kubectl = Kubectl(own_plane.kubeconfig)
    kubectl.install_crds()
    token, authority, kubeconfig = tmp_path / "token", tmp_path / "authority.crt", tmp_path / "operator.kubeconfig"
    token.write_text("first\n")
    authority.write_bytes((own_plane.dir / "ca.crt").read_bytes())
    kubeconfig.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
        "clusters": [{"name": "c", "cluster": {"server": own_plane.url, "certificate-authority": str(authority)}}],
        "users": [{"name": "u", "user": {"tokenFile": str(token)}}]}))
    operator = Operator(group, kubeconfig, flags=["--no-leader-election"]).start().wait_ready()
    make_workers(1, kubectl)
    kubectl.apply(profile_request("before", logdir))
    assert condition(wait_finished(kubectl, "before"), "Succeeded")["status"] == "True"

    # A new authority, certificate and token; the old ones are no longer valid.
    own_plane.apiserver.kill()
    rotated = tmp_path / "rotated"
    rotated.mkdir()
    make_authority(rotated, "another-ca")
    issue(rotated, "server", "/CN=kube-apiserver")
    issue(rotated, "admin", "/O=system:masters/CN=admin", server=False)
    for name in ("ca.crt", "ca.key", "server.crt", "server.key", "admin.crt", "admin.key"):
        (own_plane.dir / name).write_bytes((rotated / name).read_bytes())
    own_plane.tokens.write_text('second,strobe,1,"system:masters"\n')
    own_plane.write_kubeconfig(own_plane.kubeconfig, "admin")
    own_plane.start_apiserver()
    own_plane.wait_ready()
    kubectl.apply(profile_request("after", logdir))
    assert condition(kubectl.get("profreq", "after"), "Succeeded")["status"] == "Missing", "the operator does not believe the new server yet"
    authority.write_bytes((rotated / "ca.crt").read_bytes())
    token.write_text("second\n")
    assert condition(wait_finished(kubectl, "after", 90), "Succeeded")["status"] == "True"
    assert operator.process.running()
