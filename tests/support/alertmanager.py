"""A real Alertmanager (Debian's package) that posts to one receiver."""

import json
import urllib.request

from .ports import free_port
from .processes import wait_until


class Alertmanager:
    """`http` is the receiver's http_config. Each set of the labels alertname and job is a group, and a post of its own."""

    def __init__(self, group, directory, url, http, name="alertmanager", **webhook):
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / f"{name}.yaml"
        config.write_text(json.dumps({
            "route": {"receiver": "strobe", "group_by": ["alertname", "job"], "group_wait": "1s", "group_interval": "1s", "repeat_interval": "1h"},
            "receivers": [{"name": "strobe", "webhook_configs": [{"url": url, "send_resolved": True, "http_config": http, **webhook}]}]}))
        self.port = free_port()
        self.process = group.start(name, ["prometheus-alertmanager", f"--config.file={config}", f"--storage.path={directory / name}",
                                          f"--web.listen-address=127.0.0.1:{self.port}", "--cluster.listen-address="])
        wait_until(self._is_ready, 30, "Alertmanager's readiness")

    def _is_ready(self):
        if not self.process.running():
            raise RuntimeError(f"Alertmanager ended:\n{self.process.output()[-3000:]}")
        try:
            return self.page("/-/ready")
        except OSError:
            return False

    def page(self, path, body=None):
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return answer.read().decode()

    def tell(self, *alerts):
        """Each alert is a dictionary with labels, and perhaps annotations, startsAt and endsAt."""
        self.page("/api/v2/alerts", json.dumps(alerts).encode())
