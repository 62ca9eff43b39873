"""Third-party object storage servers on loopback, with TLS certificates from a private CA."""

import json
import os
import subprocess
import urllib.parse
import urllib.request

from .ports import free_port
from .processes import BUILD, TOOLS, wait_until
from .tls import make_authority, issue


class Server:
    """A running store with one bucket. `url` is a logdir, and `env` the environment that a pod would get."""

    scheme = name = None
    bucket = "traces"

    def __init__(self, group, directory, tls=True):
        self.group = group
        self.dir = directory / self.name
        self.dir.mkdir(parents=True)
        self.port = free_port()
        self.tls = tls
        if tls:
            make_authority(self.dir, "store-ca")
            issue(self.dir, "server", "/CN=store")
        self.ca = self.dir / "ca.crt"

    @property
    def endpoint(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def url(self):
        return f"{self.scheme}://{self.bucket}/logs"

    def start(self):
        self.process = self.group.start(f"{self.name}-{self.port}", self.command())
        wait_until(self.answers, 60, self.name)
        self.make_bucket()
        return self

    def answers(self):
        try:
            urllib.request.urlopen(self.endpoint, timeout=2, context=self.context())
        except urllib.error.HTTPError:
            return True
        except OSError:
            assert self.process.running(), self.process.output()[-2000:]
            return False
        return True

    def context(self):
        import ssl

        return ssl.create_default_context(cafile=self.ca) if self.tls else None

    def ca_env(self):
        return {"STROBE_STORAGE_CA_BUNDLE": str(self.ca)} if self.tls else {}


class S3Server(Server):
    scheme = "s3"
    key, secret = "test-key-id", "test-secret-access-key"

    @property
    def env(self):
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret,
                "AWS_REGION": "us-east-1", **self.ca_env()}

    @property
    def client(self):
        import boto3
        from botocore.config import Config

        return boto3.client("s3", endpoint_url=self.endpoint, region_name="us-east-1", aws_access_key_id=self.key,
                            aws_secret_access_key=self.secret, verify=str(self.ca) if self.tls else None,
                            config=Config(retries={"max_attempts": 1}))

    def make_bucket(self):
        self.client.create_bucket(Bucket=self.bucket)

    def objects(self):
        found = {}
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket):
            found.update({o["Key"]: o["Size"] for o in page.get("Contents", [])})
        return found

    def read(self, key):
        return self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()

    def write(self, key, data):
        self.client.put_object(Bucket=self.bucket, Key=key, Body=data)

    def open_uploads(self):
        """Unfinished uploads that have parts. Uploads without parts do not count: they remain when the answer
        that contains the upload's id is lost, so that the client cannot abort them."""
        uploads = self.client.list_multipart_uploads(Bucket=self.bucket).get("Uploads") or []
        return [u for u in uploads if self.client.list_parts(Bucket=self.bucket, Key=u["Key"], UploadId=u["UploadId"]).get("Parts")]


class Versity(S3Server):
    name = "versitygw"

    def command(self):
        data = self.dir / "data"
        data.mkdir()
        tls = ["--cert", self.dir / "server.crt", "--key", self.dir / "server.key"] if self.tls else []
        return [TOOLS / "versitygw", "--port", f"127.0.0.1:{self.port}", "--access", self.key, "--secret", self.secret,
                "--quiet", *tls, "posix", data]


class Moto(S3Server):
    name = "moto"

    def command(self):
        tls = ["-c", self.dir / "server.crt", "-k", self.dir / "server.key"] if self.tls else []
        return [BUILD / "venv/bin/moto_server", "-H", "127.0.0.1", "-p", self.port, *tls]


class FakeGcs(Server):
    name, scheme = "fake-gcs-server", "gs"

    def command(self):
        tls = ["-cert-location", self.dir / "server.crt", "-private-key-location", self.dir / "server.key"] if self.tls else []
        return [TOOLS / "fake-gcs-server", "-backend", "memory", "-host", "127.0.0.1", "-port", self.port,
                "-scheme", "https" if self.tls else "http", "-public-host", f"127.0.0.1:{self.port}", *tls]

    @property
    def env(self):
        return {"STORAGE_EMULATOR_HOST": self.endpoint, **self.ca_env()}

    def api(self, path, method="GET", body=None, raw=False):
        request = urllib.request.Request(f"{self.endpoint}/{path}", method=method, data=body,
                                         headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10, context=self.context()) as answer:
            data = answer.read()
            return data if raw else json.loads(data)

    def make_bucket(self):
        self.api("storage/v1/b?project=test", "POST", json.dumps({"name": self.bucket}).encode())

    def objects(self):
        return {o["name"]: int(o["size"]) for o in self.api(f"storage/v1/b/{self.bucket}/o").get("items", [])}

    def read(self, key):
        return self.api(f"storage/v1/b/{self.bucket}/o/{urllib.parse.quote(key, safe='')}?alt=media", raw=True)

    def write(self, key, data):
        self.api(f"upload/storage/v1/b/{self.bucket}/o?uploadType=media&name={urllib.parse.quote(key, safe='')}", "POST", data)


class Azurite(Server):
    name, scheme = "azurite", "az"
    # The default account of Azurite; the key is public, in Azure's documentation.
    account = "devstoreaccount1"
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    def command(self):
        tls = ["--cert", self.dir / "server.crt", "--key", self.dir / "server.key"] if self.tls else []
        return [BUILD / "tools/azurite/node_modules/.bin/azurite-blob", "--blobHost", "127.0.0.1", "--blobPort", self.port,
                "--location", self.dir, "--silent", "--skipApiVersionCheck", "--disableTelemetry", *tls]

    @property
    def env(self):
        return {"AZURE_STORAGE_ENDPOINT": f"{self.endpoint}/{self.account}", "AZURE_STORAGE_ACCOUNT_NAME": self.account,
                "AZURE_STORAGE_ACCOUNT_KEY": self.key, **self.ca_env()}

    @property
    def client(self):
        from azure.storage.blob import ContainerClient

        return ContainerClient(f"{self.endpoint}/{self.account}", self.bucket, credential=self.key,
                               connection_verify=str(self.ca) if self.tls else True)

    def make_bucket(self):
        self.client.create_container()

    def objects(self):
        return {b.name: b.size for b in self.client.list_blobs()}

    def read(self, key):
        return self.client.download_blob(key).readall()

    def write(self, key, data):
        self.client.upload_blob(key, data, overwrite=True)


SERVERS = {server.name: server for server in (Versity, Moto, FakeGcs, Azurite)}


def strobe_env(server):
    """An environment with which our programs reach the server and find no other credentials."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "GOOGLE_", "AZURE_", "STORAGE_"))}
    return {**clean, **server.env}


def run_strobe(binary, *arguments, env, timeout=120):
    return subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, env=env, timeout=timeout)
