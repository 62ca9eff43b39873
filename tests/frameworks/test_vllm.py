"""vLLM on processors, unchanged: recorded as it serves, and compared with what it and its clients noted. CI has no time for it.

    tests/frameworks/vllm_version 0.32.0
    build/venv/bin/python -m pytest tests/frameworks/test_vllm.py

Takes 10 minutes, best on a machine that does nothing else, and writes build/vllm/results.md.
"""

import collections
import http.client
import json
import random
import re
import statistics
import subprocess
import threading
import time

import pytest

from tests.integration.test_serving import left_out, recorded
from tests.support.ports import free_port
from tests.support.processes import BIN, BUILD, wait_until
from tests.support.step_rig import host_events, recorded_steps, stats_of_steps

VERSIONS = sorted(path.parent.name for path in BUILD.glob("vllm/*/.installed"))
MS = 1_000_000
TOKENS, CAPTURES, REQUESTS, PER_SECOND = 48, 5, 250, 5
# The model is small, and its iterations are as long as those of a large one on a GPU.
LAYERS, HIDDEN, WORDS = 8, 768, 1024
# What vLLM logs, with the time in microseconds.
LOG = {
    "version": 1, "disable_existing_loggers": False, "formatters": {"timed": {"format": "%(created).6f %(message)s"}},
    "handlers": {"all": {"class": "logging.StreamHandler", "formatter": "timed", "stream": "ext://sys.stdout"}},
    "loggers": {"vllm": {"handlers": ["all"], "level": "INFO", "propagate": False}}}
ITERATION = re.compile(r"^([0-9.]+) Engine (\d+): Iteration\((\d+)\): (\d+) context requests, (\d+) context tokens, (\d+) generation requests, "
                       r"(\d+) generation tokens, iteration elapsed time: ([0-9.]+) ms(,|$)", re.M)
Iteration = collections.namedtuple("Iteration", "ended_ns batch took_ns")
ATTENTION = "vllm::unified_attention_with_output"  # One of each layer.
STATS = ("prefill_requests", "prefill_tokens", "decode_requests", "decode_tokens")


def make_model(directory):
    """A Llama without weights (--load-format dummy), and a tokenizer of words."""
    directory.mkdir()
    files = {
        "tokenizer": {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": {
            "type": "WordLevel", "unk_token": "w2", "vocab": {f"w{i}": i for i in range(WORDS)}}},
        "tokenizer_config": {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "w0", "eos_token": "w1", "unk_token": "w2"},
        "config": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": WORDS, "hidden_size": HIDDEN, "intermediate_size": 2 * HIDDEN,
            "num_hidden_layers": LAYERS, "num_attention_heads": HIDDEN // 64, "num_key_value_heads": HIDDEN // 128, "head_dim": 64,
            "max_position_embeddings": 4096, "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "bfloat16"}}
    for name, content in files.items():
        (directory / f"{name}.json").write_text(json.dumps(content))


class Server:
    """vllm serve and a sidecar."""

    def __init__(self, group, directory, package, name, processors, *flags):
        self.dir = directory / name
        (self.dir / "strobe").mkdir(parents=True)
        make_model(self.dir / "model")
        (self.dir / "log.json").write_text(json.dumps(LOG))
        self.port, sidecar = free_port(), free_port()
        self.address = f"127.0.0.1:{sidecar}"
        group.start(f"sidecar-{name}", [
            BIN / "strobe-sidecar", "--listen", self.address, "--framework", f"127.0.0.1:{free_port()}", "--agent-dir", self.dir / "strobe/agent",
            "--spool-dir", self.dir / "spool", "--insecure-plaintext"]).wait_for("strobe-sidecar serves", 20)
        self.process = group.start(name, [
            BUILD / "vllm" / VERSIONS[-1] / "bin/vllm", "serve", self.dir / "model", "--served-model-name", "model", "--load-format", "dummy", "--host",
            "127.0.0.1", "--port", self.port, "--max-model-len", "2048", "--enforce-eager", "--enable-logging-iteration-details", *flags],
            env={"PYTHONPATH": str(package), "STROBE_DIR": str(self.dir / "strobe"), "VLLM_LOGGING_CONFIG_PATH": str(self.dir / "log.json"),
                 "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CACHE_ROOT": str(self.dir / "cache"), "VLLM_HOST_IP": "127.0.0.1",
                 "VLLM_CPU_OMP_THREADS_BIND": processors, "GLOO_SOCKET_IFNAME": "lo", "HF_HUB_OFFLINE": "1"})

    def wait(self):
        wait_until(self.serves, 200, "the server to serve")

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def serves(self):
        assert self.process.running(), self.process.output()[-4000:]
        try:
            return self.get("/health")[0] == 200
        except OSError:
            return False

    def iterations(self):
        """What the server logged of each, by engine and by its own number."""
        found = collections.defaultdict(dict)
        for logged, engine, number, *batch, took, _ in ITERATION.findall(self.process.output()):
            found[int(engine)][int(number)] = Iteration(int(float(logged) * 1e9), tuple(map(int, batch)), int(float(took) * MS))
        return found


class Load:
    """Clients that come at random moments, until there were enough of them and finish() is called."""

    def __init__(self, server, prompt, tokens):
        self.server, self.prompt, self.tokens = server, prompt, tokens
        self.asked, self.answered, self.failed, self.gaps = 0, 0, [], []
        self.random = random.Random(7)
        self.finishing = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def finish(self):
        self.finishing.set()
        self.thread.join()

    def _run(self):
        clients = []
        while self.asked < REQUESTS or not self.finishing.is_set():
            prompt = [self.random.randrange(3, WORDS) for _ in range(self.random.randint(*self.prompt))]
            clients.append(threading.Thread(target=self._ask, args=(prompt,)))
            clients[-1].start()
            self.asked += 1
            time.sleep(min(self.random.expovariate(PER_SECOND), 2 / PER_SECOND))
        for client in clients:
            client.join()

    def _ask(self, prompt):
        times, made = [], 0
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
            connection.request("POST", "/v1/completions", json.dumps({
                "model": "model", "prompt": prompt, "max_tokens": self.tokens, "ignore_eos": True, "temperature": 0, "stream": True,
                "stream_options": {"include_usage": True}}), {"Content-Type": "application/json"})
            for line in connection.getresponse():
                if line.startswith(b"data: {"):
                    answer = json.loads(line[6:])
                    times += [time.time_ns()] * bool(answer["choices"])
                    made = (answer.get("usage") or {}).get("completion_tokens", made)
        except Exception as error:  # Whatever it is, the client did not get its answer.
            self.failed.append(repr(error))
        if made != self.tokens:
            self.failed.append(f"{made} tokens")
        self.gaps += zip(times, times[1:])
        self.answered += 1


class Captures:
    """The captures of one service under load, and what its clients felt meanwhile."""

    def __init__(self, name, servers, loads, directory):
        self.name, self.servers, self.loads, self.directory = name, servers, loads, directory
        self.made = []
        self.busy = []  # From the request of a capture until its files are stored.

    def make(self, *flags):
        """Captures and returns the manifest. What the outcomes are is final at the first attempt."""
        run = f"{self.name}-{len(self.made)}"
        workers = ",".join(f"{name}={server.address}" if len(self.servers) > 1 else server.address for name, server in self.servers.items())
        began = time.time_ns()
        done = subprocess.run([
            BIN / "strobe", "capture", "--insecure-plaintext", "--workers", workers, "--logdir", self.directory / "logdir", "--run", run,
            "--duration", "2s", "--output", "json", *flags], capture_output=True, text=True, timeout=180)
        self.busy.append((began, time.time_ns()))
        assert done.stdout, done.stderr
        self.made.append(json.loads(done.stdout))
        return self.made[-1]

    def trace(self, manifest, worker):
        return self.directory / "logdir/plugins/profile" / manifest["run"] / f"{worker['name'].replace(':', '_')}.xplane.pb"

    def gaps(self):
        """The tokens' gaps in ns while there was no capture, during one, and from the end of its window until its files were stored."""
        quiet, recording, ending = [], [], []
        stopped = [int(worker["stoppedNs"]) for manifest in self.made for worker in manifest["workers"]]
        ends = [(begin, end) for begin in stopped for asked, end in self.busy if asked < begin < end]

        def within(gap, spans):
            return any(gap[0] < end and begin < gap[1] for begin, end in spans)

        for gap in (gap for load in self.loads for gap in load.gaps):
            if within(gap, ends):
                ending.append(gap[1] - gap[0])
            else:
                (recording if within(gap, self.busy) else quiet).append(gap[1] - gap[0])
        return quiet, recording, ending


def check_iterations(trace, worker, logged):
    """Each iteration that the server logged in the window is a step of the trace, with the same batch and all its operators. Returns their number."""
    times, stats = recorded_steps(trace, "engine"), stats_of_steps(trace, "engine")
    numbers = range(int(worker["steps"]["first"]), int(worker["steps"]["last"]) + 1)
    assert set(numbers) <= set(times), "steps are missing"
    # The server counts from zero.
    assert {n: tuple(stats[n][name] for name in STATS) for n in numbers} == {n: logged[n - 1].batch for n in numbers}
    # The log is written after the iteration, by another process.
    lag = statistics.median(logged[n - 1].ended_ns - times[n][1] for n in numbers)
    begin, end = int(worker["startedNs"]), int(worker["stoppedNs"])
    inside = {n + 1 for n, one in logged.items() if begin < one.ended_ns - lag - one.took_ns - 5 * MS and one.ended_ns < end}
    assert inside and inside <= set(numbers), f"{sorted(inside - set(numbers))} are not in {numbers}; the log was late by {lag / MS} ms"
    first, last = times[numbers[0]][0], times[numbers[-1]][1]
    attention = sum(name == ATTENTION and first <= began and ended <= last for name, began, ended in host_events(trace))
    assert attention == LAYERS * len(numbers), f"{attention} of {LAYERS} in each of {len(numbers)} iterations"
    return len(inside)


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] / MS


def kinds(names):
    """Without the processes' numbers."""
    return sorted(name.rpartition(" ")[0] for name in names)


@pytest.fixture(scope="module")
def table():
    """The file of the results, to which each test adds a line."""
    lines = [f"vLLM {', '.join(VERSIONS)}, {CAPTURES} captures of 2 s each\n",
             "| | iterations in the windows, of the server / missing | requests / failed | skew, ms | token gap p99, ms: quiet, recording, ending | longest |",
             "|---|---|---|---|---|---|"]
    (BUILD / "vllm/results.md").write_text("\n".join([*lines, ""]))
    return BUILD / "vllm/results.md"


# For each role the processors of its workers and its flags, and for each worker of a capture: the rank, the processes that are recorded, and those that are left out.
SERVICES = {
    "TP 1": ({"": ["0"]}, [(0, ["VLLM::EngineCore", "VLLM::Worker"], ["vllm"])]),
    "TP 2": ({"": ["0|1", "--tensor-parallel-size", "2"]}, [(0, ["VLLM::EngineCore", "VLLM::Worker_TP0"], ["vllm"]), (1, ["VLLM::Worker_TP1"], [])]),
    # With several front ends, none would log iterations.
    "DP 2": ({"": ["0|1", "--data-parallel-size", "2", "--api-server-count", "1"]}, [
        (0, ["VLLM::EngineCore_DP0", "VLLM::EngineCore_DP1", "VLLM::Worker"], ["VLLM::DPCoordinator", "vllm"]), (0, ["VLLM::Worker"], [])]),
    "two servers": ({"prefill": ["0"], "decode": ["1"]}, [(0, ["VLLM::EngineCore", "VLLM::Worker"], ["vllm"])] * 2),
}


@pytest.mark.timeout(600)
@pytest.mark.skipif(not VERSIONS, reason="build/vllm is empty; tests/frameworks/vllm_version VERSION installs one")
@pytest.mark.parametrize("name", SERVICES)
def test_a_service_under_load(group, tmp_path, python_package, protos, table, name):
    started, expected = SERVICES[name]
    servers = {role: Server(group, tmp_path, python_package, role or "server", *given) for role, given in started.items()}
    for server in servers.values():
        server.wait()
    loads = [Load(server, (128, 512), 1) if role == "prefill" else Load(server, (32, 256), TOKENS) for role, server in servers.items()]
    for load in loads:
        wait_until(lambda load=load: load.answered, 60, "the first answer")  # vLLM needs seconds for it, also when nobody records.
    captures = Captures(name.replace(" ", ""), servers, loads, tmp_path)
    for _ in range(CAPTURES):
        time.sleep(4)
        manifest = captures.make("--min-running-requests", "1", "--ready-timeout", "20s")
        print([(worker["name"], worker["outcome"], worker["message"], worker["latenessNs"]) for worker in manifest["workers"]])
    for load in loads:
        load.finish()
    quiet, recording, ending = captures.gaps()
    for gaps in (quiet, recording, ending):
        print(len(gaps), [round(percentile(gaps, share), 1) for share in (0.5, 0.9, 0.99, 1)])
    problems = [failure for load in loads for failure in load.failed]
    seen = 0
    for manifest in captures.made:
        for place, (worker, (rank, processes, others)) in enumerate(zip(manifest["workers"], expected)):
            server = servers[worker["role"]]
            try:
                assert (worker["outcome"], worker["rank"], manifest["attempt"]) == ("Ok", rank, 1), worker
                assert (kinds(recorded(worker)), kinds(left_out(worker))) == (processes, others)
                seen += check_iterations(captures.trace(manifest, worker), worker, server.iterations()[place if name.startswith("DP") else 0])
            except (AssertionError, KeyError) as error:
                problems.append(f"{manifest['run']}, {worker['name']}: {error!r}"[:600])
    rows = [row for manifest in captures.made for worker in manifest["workers"] for row in worker["processes"] if int(row["startedNs"])]
    skews = [(int(manifest["skewNs"]) / MS, int(manifest["skewErrorNs"]) / MS) for manifest in captures.made]
    line = (f"| {name} | {seen} / {len(problems)} | {sum(load.asked for load in loads)} / {sum(len(load.failed) for load in loads)} | "
            f"{', '.join(f'{skew:.2f} +-{error:.2f}' for skew, error in skews if skew)} | "
            f"{', '.join(f'{percentile(gaps, 0.99):.1f}' for gaps in (quiet, recording, ending))} | {max(ending) / MS:.0f}; stops of up to "
            f"{max(int(row['stopTookNs']) for row in rows) / MS:.0f} |")
    with open(table, "a") as file:
        file.write(line + "\n")
    assert not problems, "\n".join(problems)
    assert percentile(recording, 0.99) <= 2 * percentile(quiet, 0.99) and percentile(ending, 0.99) <= 2 * percentile(quiet, 0.99)
