"""Every way in which a pod or a person gets a storage identity (the table of docs/how-to/storage.md): the real
credential chain asks the service that issues the identity, and presents the result to a storage server."""

import datetime
import json
import subprocess

import pytest

from tests.support.identity import TokenService, assumed_role, aws_credentials, azure_token
from tests.support.processes import BIN
from tests.support.store_gate import fake_gcs_gate
from tests.support.stores import Azurite, FakeGcs, Moto, run_strobe, strobe_env


@pytest.fixture
def service():
    """Starts token services, and stops them after the test."""
    started = []

    def start(answer, tls_dir=None):
        started.append(TokenService(answer, tls_dir))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def copies(server, tmp_path, env, keep=(), url=None):
    """Writes a run with this identity and nothing else in the environment; returns the error output, "" on success."""
    run = tmp_path / "src/plugins/profile/run"
    run.mkdir(parents=True)
    (run / "w0.xplane.pb").write_bytes(b"trace")
    clean = {k: v for k, v in strobe_env(server).items() if k not in server.env or k in keep or "CA_BUNDLE" in k}
    result = run_strobe(BIN / "strobe", "cp", tmp_path / "src", url or server.url, "--all", env={**clean, **{k: str(v) for k, v in env.items()}})
    if result.returncode == 0:
        assert server.read("logs/plugins/profile/run/w0.xplane.pb") == b"trace"
        return ""
    return result.stderr


# ---- s3

AWS_PLACE = ("AWS_ENDPOINT_URL", "AWS_REGION")


@pytest.fixture
def moto(group, tmp_path):
    return Moto(group, tmp_path).start()


def test_s3_static_keys_with_a_session_token(moto, tmp_path):
    assert copies(moto, tmp_path, {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}, AWS_PLACE) == ""


def test_s3_eks_service_account_role(moto, tmp_path, service):
    sts = service(lambda *_: (200, assumed_role("key", "secret")), moto.dir)
    token = tmp_path / "token"
    token.write_text("the-projected-token")
    env = {"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/strobe", "AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ENDPOINT_URL_STS": sts.url}
    assert copies(moto, tmp_path, env, AWS_PLACE) == ""
    _, path, _, form = sts.seen[0]
    assert "the-projected-token" in path + json.dumps(form) and "AssumeRoleWithWebIdentity" in path + json.dumps(form)


def test_s3_eks_pod_identity(moto, tmp_path, service):
    agent = service(lambda *_: (200, aws_credentials("key", "secret")))
    token = tmp_path / "token"
    token.write_text("the-projected-token")
    env = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{agent.url}/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": token}
    assert copies(moto, tmp_path, env, AWS_PLACE) == ""
    assert agent.seen[0][2]["authorization"] == "the-projected-token"


def test_s3_instance_metadata(moto, tmp_path, service):
    def imds(method, path, headers, form):
        if method == "PUT":
            return 200, "imds-session"
        assert headers["x-aws-ec2-metadata-token"] == "imds-session"
        return (200, "the-role") if path.endswith("/security-credentials/") else (200, aws_credentials("key", "secret"))

    metadata = service(imds)
    assert copies(moto, tmp_path, {"AWS_METADATA_ENDPOINT": metadata.url}, AWS_PLACE) == ""
    assert metadata.seen[0][0] == "PUT", "version 2 of the service"


def test_s3_without_any_identity_says_so(moto, tmp_path, service):
    nobody = service(lambda *_: (404, "no role here"))
    words = copies(moto, tmp_path, {"AWS_METADATA_ENDPOINT": nobody.url}, AWS_PLACE)
    assert "no valid credentials; see docs/how-to/storage.md" in words


def test_s3_secret_file(moto, tmp_path):
    """A storage configuration, as a Kubernetes Secret mounts it."""
    config = tmp_path / "storage.yaml"
    config.write_text(json.dumps({"s3": {"endpoint": moto.endpoint, "ca_bundle": str(moto.ca), "aws_access_key_id": "k", "aws_secret_access_key": "s"}}))
    assert copies(moto, tmp_path, {"STROBE_STORAGE_CONFIG": config}) == ""


# ---- gs


@pytest.fixture
def gcs(group, tmp_path):
    server = FakeGcs(group, tmp_path).start()
    gate = fake_gcs_gate(server)
    gate.tokens = set()
    plain = gate.translate

    def remember(method, path, headers, body):
        gate.tokens.add({k.lower(): v for k, v in headers.items()}.get("authorization"))
        return plain(method, path, headers, body)

    gate.translate = remember
    yield server, gate
    gate.stop()


def test_gs_service_account_file(gcs, tmp_path, service):
    server, gate = gcs
    tokens = service(lambda *_: (200, {"access_token": "from-the-key-file", "expires_in": 3600, "token_type": "Bearer"}))
    key = subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"], capture_output=True, text=True, check=True).stdout
    account = tmp_path / "account.json"
    # The object_store crate signs a token with the file's key; it does not exchange it at token_uri.
    account.write_text(json.dumps({"type": "service_account", "private_key": key, "private_key_id": "1", "client_email": "strobe@project.iam.gserviceaccount.com",
                                   "client_id": "1", "gcs_base_url": gate.endpoint, "token_uri": tokens.url}))
    assert copies(server, tmp_path, {"GOOGLE_SERVICE_ACCOUNT": account}) == ""
    (bearer,) = gate.tokens
    assert bearer.startswith("Bearer ") and len(bearer) > 100, "a token signed with the file's key"


def test_gs_gke_workload_identity(gcs, tmp_path, service):
    server, gate = gcs

    def metadata(method, path, headers, form):
        assert headers["metadata-flavor"] == "Google"
        return 200, {"access_token": "from-metadata", "expires_in": 3600, "token_type": "Bearer"}

    google = service(metadata)
    assert copies(server, tmp_path, {"GCE_METADATA_HOST": google.host, "GOOGLE_BASE_URL": gate.endpoint}) == ""
    assert gate.tokens == {"Bearer from-metadata"}
    assert "service-accounts/default/token" in google.seen[0][1]


# ---- az


@pytest.fixture
def azurite(group, tmp_path):
    class WithOauth(Azurite):
        def command(self):
            return [*super().command(), "--oauth", "basic"]

    return WithOauth(group, tmp_path).start()


AZURE_PLACE = ("AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_ACCOUNT_NAME")


def test_az_aks_workload_identity(azurite, tmp_path, service):
    entra = service(lambda *_: (200, {"access_token": azure_token(), "expires_in": 3600, "token_type": "Bearer"}))
    token = tmp_path / "token"
    token.write_text("the-projected-token")
    env = {"AZURE_TENANT_ID": "ab1f708d-50f6-404c-a006-d71b2ac7a606", "AZURE_CLIENT_ID": "client", "AZURE_FEDERATED_TOKEN_FILE": token,
           "AZURE_AUTHORITY_HOST": entra.url}
    config = tmp_path / "plain.yaml"
    config.write_text("az:\n  azure_allow_http: 'true'\n")  # The token service of this test does not use TLS.
    assert copies(azurite, tmp_path, {**env, "STROBE_STORAGE_CONFIG": config}, AZURE_PLACE) == ""
    _, path, _, form = entra.seen[0]
    assert path.endswith("/oauth2/v2.0/token") and form["client_assertion"] == "the-projected-token"


def test_az_managed_identity(azurite, tmp_path, service):
    # Azure sends expires_on as text, in seconds since 1970.
    imds = service(lambda *_: (200, {"access_token": azure_token(), "expires_on": "4102444800", "token_type": "Bearer"}))
    config = tmp_path / "plain.yaml"
    config.write_text("az:\n  azure_allow_http: 'true'\n")
    env = {"AZURE_IDENTITY_ENDPOINT": f"{imds.url}/metadata/identity/oauth2/token", "STROBE_STORAGE_CONFIG": config}
    assert copies(azurite, tmp_path, env, AZURE_PLACE) == ""
    assert imds.seen[0][2]["metadata"].lower() == "true"


def test_az_sas_token(azurite, tmp_path):
    from azure.storage.blob import ContainerSasPermissions, generate_container_sas

    sas = generate_container_sas(azurite.account, azurite.bucket, account_key=azurite.key,
                                 permission=ContainerSasPermissions(read=True, write=True, create=True, list=True),
                                 expiry=datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1))
    assert copies(azurite, tmp_path, {"AZURE_STORAGE_SAS_TOKEN": sas}, AZURE_PLACE) == ""


def test_az_errors_carry_no_signature(azurite, tmp_path):
    words = copies(azurite, tmp_path, {"AZURE_STORAGE_SAS_TOKEN": "sv=2022-11-02&sp=r&sr=c&sig=c2VjcmV0LXNpZ25hdHVyZQ%3D%3D"}, AZURE_PLACE)
    assert words and "c2VjcmV0" not in words


# ---- redirects

@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_credentials_are_not_taken_along_when_a_store_redirects(status, scheme, service, tmp_path):
    """A store that an attacker controls redirects the pod to the metadata service."""
    trap = service(lambda *_: (200, ""))
    store = service(lambda *_: (status, "", {"Location": f"{trap.url}/latest/meta-data/iam/security-credentials/"}))
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"gcs_base_url": store.url, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}))
    env = {"AWS_ENDPOINT_URL": store.url, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "session", "AWS_REGION": "us-east-1",
           "GOOGLE_BASE_URL": store.url, "GOOGLE_SERVICE_ACCOUNT": str(key)}
    run = tmp_path / "src/plugins/profile/run"
    run.mkdir(parents=True)
    (run / "w0.xplane.pb").write_bytes(b"trace")
    done = run_strobe(BIN / "strobe", "cp", tmp_path / "src", f"{scheme}://traces/logs", "--all", env=env)
    assert done.returncode != 0 and store.seen
    for method, path, headers, _ in trap.seen:
        assert not {"authorization", "x-amz-security-token"} & set(headers), (method, path, headers)
