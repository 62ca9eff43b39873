"""Certificates between operator and sidecars: who gets one, who is let in, and who is refused (each refusal is counted)."""

import datetime
import socket
import time

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.support.operator import condition, profile_request, wait_finished
from tests.support.ports import free_port
from tests.support.processes import BIN, wait_until
from tests.support.secure import SecureOperator, SecureSidecar, allow, make_pod, pod_token


@pytest.fixture
def operator(group, plane, kubectl, logdir):
    operator = SecureOperator(group, plane, kubectl).start().wait_ready()
    allow(kubectl, logdir)
    yield operator
    operator.remove()


@pytest.fixture
def make_sidecars(group, operator, kubectl, trainers, tmp_path):
    def make(count, **options):
        sidecars = [SecureSidecar(group, operator, f"worker-{i}", trainer.profiler_port, tmp_path / f"w{i}", i, **options).start()
                    for i, trainer in enumerate(trainers.first(count))]
        return [sidecar.wait() for sidecar in sidecars]

    return make


def pem_key(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def signing_request(key, name="x"):
    return x509.CertificateSigningRequestBuilder().subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])).sign(
        key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def issue(authority, name, usage=ExtendedKeyUsageOID.CLIENT_AUTH, days=1, since=datetime.timedelta(days=2)):
    """(key, certificate) in PEM for a DNS name; days < 0 = expired. `authority` is (certificates, keys) in PEM; None = an unknown authority."""
    own = ec.generate_private_key(ec.SECP256R1())
    if authority:
        certificate, key = x509.load_pem_x509_certificate(authority[0].encode()), serialization.load_pem_private_key(authority[1].encode(), None)
        issuer = certificate.subject
    else:
        key, issuer = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "strobe")])
    now = datetime.datetime.now(datetime.timezone.utc)
    leaf = (x509.CertificateBuilder().subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])).issuer_name(issuer)
            .public_key(own.public_key()).serial_number(x509.random_serial_number()).not_valid_before(now - since)
            .not_valid_after(now + datetime.timedelta(days=days)).add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), False)
            .add_extension(x509.ExtendedKeyUsage([usage]), False).sign(key, hashes.SHA256()))
    return pem_key(own), leaf.public_bytes(serialization.Encoding.PEM)


def describe(protos, sidecar, roots, pair=None, name=None):
    """Calls Describe on the worker port and returns the response; a refusal raises grpc.RpcError."""
    from strobe.v1 import worker_pb2, worker_pb2_grpc

    credentials = grpc.ssl_channel_credentials(roots.encode(), *(pair or (None, None)))
    options = [("grpc.ssl_target_name_override", name or f"{sidecar.pod}.pod.strobe.dev"), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(f"127.0.0.1:{sidecar.port}", credentials, options) as channel:
        return worker_pb2_grpc.WorkerStub(channel).Describe(worker_pb2.DescribeRequest(), timeout=10)


def server_name(kubectl, pod):
    return f"{kubectl.get('pod', pod)['metadata']['uid']}.pod.strobe.dev"


def test_a_capture_over_tls(operator, kubectl, make_sidecars, logdir):
    make_sidecars(2)
    kubectl.apply(profile_request("look", logdir))
    request = wait_finished(kubectl, "look")
    assert condition(request, "Succeeded")["status"] == "True", request["status"]
    assert request["status"]["workers"]["ok"] == 2
    assert operator.metric("strobe_enrollments_total", result="ok") == 2


def test_only_the_operator_reaches_a_sidecar(operator, kubectl, make_sidecars, protos):
    (sidecar,) = make_sidecars(1)
    authority = operator.authority()
    name = server_name(kubectl, "worker-0")
    assert describe(protos, sidecar, authority[0], issue(authority, "operator.strobe.dev"), name).worker == "worker-0"
    others = {
        "no_certificate": None,
        "untrusted": issue(None, "operator.strobe.dev"),
        "expired": issue(authority, "operator.strobe.dev", days=-1),
        "wrong_name": issue(authority, "someone.pod.strobe.dev"),
    }
    for reason, pair in others.items():
        before = sidecar.refused(reason)
        with pytest.raises(grpc.RpcError) as error:
            describe(protos, sidecar, authority[0], pair, name)
        assert error.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        assert "strobe" not in error.value.details().replace("strobe.dev", ""), error.value.details()
        wait_until(lambda: sidecar.refused(reason) > before, 10, reason)
    # A server certificate, as pods have, is not accepted from a client.
    before = sidecar.refused("untrusted")
    with pytest.raises(grpc.RpcError):
        describe(protos, sidecar, authority[0], issue(authority, "operator.strobe.dev", ExtendedKeyUsageOID.SERVER_AUTH), name)
    wait_until(lambda: sidecar.refused("untrusted") > before, 10, "a server's certificate")
    # Plain text and garbage.
    before = sidecar.refused("handshake")
    for hello in (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256))):
        with socket.create_connection(("127.0.0.1", sidecar.port), timeout=10) as client:
            client.sendall(hello)
            client.settimeout(15)
            answer = b""
            try:
                while chunk := client.recv(4096):
                    answer += chunk
            except OSError:
                pass
            assert b"strobe" not in answer.lower()
    wait_until(lambda: sidecar.refused("handshake") >= before + 2, 10, "the count")
    assert sidecar.process.running()


def test_the_operator_talks_to_the_pod_that_it_meant(operator, kubectl, make_sidecars, logdir):
    first, second = make_sidecars(2)
    # The address of worker-0 now belongs to another pod's sidecar, as if the address had been reused.
    kubectl.run("delete", "pod", "worker-0", "--force", "--grace-period=0")
    make_pod(kubectl, "worker-0", second.port)
    kubectl.apply(profile_request("look", logdir, target={"pods": ["worker-0"]}, attempts=1, start={"readyTimeout": "0s"}))
    request = wait_finished(kubectl, "look")
    assert condition(request, "Succeeded")["status"] == "False"
    assert request["status"]["outcomes"][0]["cause"] == "Unreachable"
    assert operator.metric("strobe_refused_peers_total", server="worker", reason="wrong_name") >= 1


def enroll(operator, token, request):
    from strobe.v1 import enrollment_pb2, enrollment_pb2_grpc

    credentials = grpc.ssl_channel_credentials(operator.authority()[0].encode())
    with grpc.secure_channel(f"localhost:{operator.enroll_port}", credentials) as channel:
        return enrollment_pb2_grpc.EnrollmentStub(channel).Enroll(
            enrollment_pb2.EnrollRequest(token=token, signing_request=request), timeout=10)


def test_only_pods_are_enrolled_and_as_themselves(operator, kubectl, protos):
    make_pod(kubectl, "a", 1)
    make_pod(kubectl, "b", 1)
    key = ec.generate_private_key(ec.SECP256R1())
    # Whatever name a request claims, the certificate names the pod of the token.
    answer = enroll(operator, pod_token(kubectl, "a"), signing_request(key, "operator.strobe.dev"))
    leaf = x509.load_pem_x509_certificate(answer.certificate.encode())
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    assert names == [server_name(kubectl, "a")]
    assert leaf.public_key() == key.public_key()
    deleted = pod_token(kubectl, "b")
    kubectl.run("delete", "pod", "b", "--force", "--grace-period=0")
    for token in ("", "nonsense", "x" * 50_000, deleted, pod_token(kubectl, "a", audience="other"),
                  kubectl.run("create", "token", "default", "--audience=strobe").stdout.strip()):
        with pytest.raises(grpc.RpcError) as error:
            enroll(operator, token, signing_request(key))
        assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED, error.value
        assert error.value.details() == "the token was not accepted"
    rsa_like = "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"
    for request in ("", rsa_like, "x" * 20_000):
        with pytest.raises(grpc.RpcError) as error:
            enroll(operator, pod_token(kubectl, "a"), request)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert operator.metric("strobe_enrollments_total", result="denied") == 6


def test_a_sidecar_waits_for_its_operator_and_survives_it(operator, group, kubectl, logdir, trainers, tmp_path):
    operator.process.kill()
    sidecar = SecureSidecar(group, operator, "worker-0", trainers[0].profiler_port, tmp_path / "w").start()
    sidecar.process.wait_for("cannot enroll yet", 20)
    assert "strobe_build_info" in sidecar.page(), "the startup probe does not wait for the operator"
    operator.start().wait_ready()
    sidecar.wait()
    # The sidecars still trust the operator after its restart.
    operator.process.kill()
    operator.start().wait_ready()
    kubectl.apply(profile_request("look", logdir))
    assert condition(wait_finished(kubectl, "look"), "Succeeded")["status"] == "True"


def test_certificates_are_renewed_in_time(group, plane, kubectl, trainers, logdir, tmp_path):
    """Captures go on while certificates and the authority expire and are replaced."""
    operator = SecureOperator(group, plane, kubectl, tls={"authorityLifetime": "66s", "settle": "10s", "certificateLifetime": "10s"}).start().wait_ready()
    try:
        allow(kubectl, logdir)
        sidecar = SecureSidecar(group, operator, "worker-0", trainers[0].profiler_port, tmp_path / "w").start().wait()
        first = operator.authority()[0]
        number = 0
        deadline = time.monotonic() + 150
        while first.split("-----END")[0] in operator.authority()[0]:
            assert time.monotonic() < deadline
            number += 1
            kubectl.apply(profile_request(f"look-{number}", logdir, attempts=1))
            request = wait_finished(kubectl, f"look-{number}")
            assert condition(request, "Succeeded")["status"] == "True", request["status"]
        assert number >= 3
        # A restarted container has the pod's old roots, and the newer ones that it saved.
        sidecar.process.kill()
        sidecar.start().wait()
    finally:
        operator.remove()


@pytest.fixture
def taken():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


def ended_with_an_error_about(process, port):
    wait_until(lambda: not process.running(), 60, "its end")
    assert process.popen.returncode == 1
    errors = [line for line in process.output().splitlines() if " E " in line]
    assert any(f"127.0.0.1:{port}" in line for line in errors), process.output()


@pytest.mark.parametrize("which", ["tls", "webhook", "http"])
def test_an_operators_port_that_is_taken_ends_it(which, group, plane, kubectl, taken):
    """The operator used to run on without serving, or to exit with success."""
    options = {"tls": {"tls": {"enrollListen": f"127.0.0.1:{taken}"}}, "webhook": {"webhook": {"listen": f"127.0.0.1:{taken}"}}, "http": {}}[which]
    operator = SecureOperator(group, plane, kubectl, **options)
    if which == "http":
        operator.command[operator.command.index("--http-listen") + 1] = f"127.0.0.1:{taken}"
    try:
        operator.start()
        ended_with_an_error_about(operator.process, taken)
    finally:
        operator.remove()


def test_a_sidecars_port_that_is_taken_ends_it(group, operator, trainers, tmp_path, taken):
    sidecar = SecureSidecar(group, operator, "worker-0", trainers[0].profiler_port, tmp_path)
    sidecar.command[sidecar.command.index("--listen") + 1] = f"127.0.0.1:{taken}"
    sidecar.start()
    ended_with_an_error_about(sidecar.process, taken)
    assert "serves its operator" not in sidecar.process.output()


@pytest.mark.parametrize("flag", ["--listen", "--http-listen", "--compat-listen"])
def test_a_plain_sidecars_port_that_is_taken_ends_it(flag, group, taken):
    listen = {"--listen": f"127.0.0.1:{free_port()}", flag: f"127.0.0.1:{taken}"}
    process = group.start("sidecar", [BIN / "strobe-sidecar", "--insecure-plaintext", *[part for pair in listen.items() for part in pair]])
    ended_with_an_error_about(process, taken)
