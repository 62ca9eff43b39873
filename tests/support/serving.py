"""A running `strobe serve`, a real proxy with logins in front of it, and raw requests to both."""

import http.client
import json
import re
import ssl
import subprocess

from .ports import free_port
from .processes import BIN
from .tls import issue, make_authority


def serve_config(logdirs, **more):
    """What `more` names replaces what is here."""
    return {"logdirs": logdirs, "listen": "127.0.0.1:0", "accessCache": "1s"} | more


class Serve:
    def __init__(self, group, name, directory, config, kubeconfig):
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / f"{name}.yaml"
        file.write_text(json.dumps(config))
        self.process = group.start(name, [BIN / "strobe", "serve", "--config", file, "--kubeconfig", kubeconfig])
        self.process.wait_for("Serving", 30)
        self.port = int(re.search(r"at https?://\S+:(\d+)/", self.process.output()).group(1))

    def ask(self, path, user=None, groups=None, headers=(), host=None, timeout=30):
        """The status, headers and body of an answer; `headers` are sent as they are, also twice."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.putrequest("GET", path, skip_host=True)
        connection.putheader("Host", host or f"127.0.0.1:{self.port}")
        sent = [*([("X-Forwarded-User", user)] if user else []), *([("X-Forwarded-Groups", groups)] if groups else []), *headers]
        for key, value in sent:
            connection.putheader(key, value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), body

    def runs(self, user, groups=None):
        status, _, body = self.ask("/api/runs", user, groups)
        assert status == 200, body
        return json.loads(body)["runs"]


class Proxies:
    """The certificates of a server and of proxies, all of one authority: server, strobe-proxy, another."""

    def __init__(self, directory):
        self.dir = directory
        directory.mkdir(parents=True, exist_ok=True)
        make_authority(directory, "proxies")
        issue(directory, "server", "/CN=strobe-serve")
        issue(directory, "strobe-proxy", "/CN=strobe-proxy", server=False)
        issue(directory, "another", "/CN=another", server=False)

    def tls(self):
        return {"certificate": str(self.dir / "server.crt"), "key": str(self.dir / "server.key"),
                "clientAuthority": str(self.dir / "ca.crt"), "clientNames": ["strobe-proxy"]}

    def context(self, client=None):
        context = ssl.create_default_context(cafile=self.dir / "ca.crt")
        if client:
            context.load_cert_chain(self.dir / f"{client}.crt", self.dir / f"{client}.key")
        return context

    def get(self, port, path, client=None, user=None):
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=self.context(client), timeout=10)
        connection.request("GET", path, headers={"X-Forwarded-User": user} if user else {})
        answer = connection.getresponse()
        return answer.status, answer.read()


class Nginx:
    """nginx with a password file, which passes user and groups to a server that demands its certificate."""

    def __init__(self, group, proxies, port, users):
        directory = proxies.dir / "nginx"
        directory.mkdir()
        hashed = {user: subprocess.run(["openssl", "passwd", "-apr1", password], check=True, capture_output=True, text=True).stdout.strip()
                  for user, (password, _) in users.items()}
        (directory / "users").write_text("".join(f"{user}:{text}\n" for user, text in hashed.items()))
        self.port = free_port()
        groups = " ".join(f'"{user}" "{names}";' for user, (_, names) in users.items())
        (directory / "nginx.conf").write_text(f"""
            daemon off; master_process off; pid {directory}/pid; error_log stderr; worker_processes 1;
            events {{ worker_connections 512; }}
            http {{
              access_log off; client_body_temp_path {directory}/b; proxy_temp_path {directory}/p; fastcgi_temp_path {directory}/f;
              uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
              map $remote_user $groups {{ default ""; {groups} }}
              server {{
                listen 127.0.0.1:{self.port};
                auth_basic "Strobe"; auth_basic_user_file {directory}/users;
                location / {{
                  proxy_pass https://127.0.0.1:{port};
                  proxy_ssl_certificate {proxies.dir}/strobe-proxy.crt; proxy_ssl_certificate_key {proxies.dir}/strobe-proxy.key;
                  proxy_ssl_trusted_certificate {proxies.dir}/ca.crt; proxy_ssl_verify on; proxy_ssl_name localhost;
                  proxy_set_header Host strobe.example.com; proxy_set_header Authorization "";
                  proxy_set_header X-Forwarded-User $remote_user; proxy_set_header X-Forwarded-Groups $groups;
                }}
              }}
            }}""")
        self.process = group.start("nginx", ["/usr/sbin/nginx", "-e", "stderr", "-p", directory, "-c", directory / "nginx.conf"])
