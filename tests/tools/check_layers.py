"""Checks that includes only follow the arrows of the table below (see ARCHITECTURE.md), and that the table has no cycle."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Each module, with all modules that it may include besides itself. Transitive arrows must be listed
# too. ARCHITECTURE.md shows the same arrows without those that follow from others.
ARROWS = {
    "common/base": [],
    "common/fair": ["common/base"],
    "common/tls": ["common/base"],
    "common/grpc_tls": ["common/base", "common/tls"],
    "common/text": ["common/base"],
    "common/http": ["common/base", "common/fair", "common/text", "common/tls"],
    "common/memory": ["common/base"],
    "common/protocol": ["common/base"],
    "common/yaml": ["common/base"],
    "agent/wire": [],
    "agent/cupti": ["agent/wire"],
    "agent/sdk/strobe": [],
    "agent/evidence": ["agent/recorder", "agent/wire"],
    "agent/nccl": ["agent/wire"],
    "agent/recorder": ["agent/cupti", "agent/nccl", "agent/sdk/strobe", "agent/wire"],
    "agent/sdk/python/strobe": [],
    "collector/store/bridge": [],
    "collector/store": ["collector/store/bridge", "common/base", "common/memory", "common/text"],
    "collector/store/catalog": ["collector/store", "common/base", "common/memory", "common/text"],
    "collector/trace/xplane": ["common/base", "common/text"],
    "collector/trace/analysis": ["collector/trace/xplane", "common/base", "common/protocol"],
    "collector/trace/convert": ["collector/trace/xplane", "common/base", "common/memory", "common/text"],
    "collector/trace/digest": ["collector/trace/xplane", "common/base", "common/text"],
    "collector/trace/index": ["collector/trace/analysis", "collector/trace/xplane", "common/base", "common/memory"],
    "collector/trace/kineto": ["collector/trace/xplane", "common/base", "common/text"],
    "collector/trace/report": ["collector/trace/digest", "common/base", "common/text"],
    # The parquet crate is a part of the object-store bridge.
    "collector/trace/table": ["collector/store/bridge", "collector/trace/analysis", "collector/trace/convert", "collector/trace/digest",
                              "collector/trace/report", "common/base"],
    "collector/trace/tally": ["collector/trace/digest", "collector/trace/index", "collector/trace/report", "collector/trace/xplane", "common/base"],
    "collector/stall": ["common/base", "common/text"],
    "capture": ["collector/stall", "collector/store", "collector/trace/digest", "collector/trace/report", "common/base",
                "common/protocol", "common/text"],
    "capture/worker": ["capture", "common/base", "common/grpc_tls"],
    "sidecar/capture": ["collector/store", "collector/trace/analysis", "collector/trace/convert", "collector/trace/digest", "collector/trace/xplane",
                        "common/base", "common/protocol", "common/text"],
    "sidecar/enroll": ["common/base", "common/grpc_tls", "common/tls"],
    "sidecar/service": ["collector/store", "common/base", "common/protocol", "common/text", "common/tls", "sidecar/capture"],
    "sidecar/source/base": ["agent/wire", "collector/store", "collector/trace/analysis", "collector/trace/xplane", "common/base", "common/protocol",
                            "common/text", "sidecar/capture"],
    "sidecar/source/device": ["agent/wire", "collector/trace/xplane", "common/base", "common/protocol", "sidecar/source/base"],
    "sidecar/source/agent": ["agent/wire", "collector/store", "collector/trace/xplane", "common/base", "common/memory", "common/protocol", "common/text",
                             "sidecar/capture", "sidecar/source/base", "sidecar/source/device"],
    "sidecar/source/inproc": ["collector/store", "collector/trace/kineto", "common/base", "common/protocol", "common/text", "sidecar/capture",
                              "sidecar/source/agent", "sidecar/source/base"],
    "sidecar/source/kineto": ["agent/wire", "common/base", "common/protocol", "sidecar/capture", "sidecar/source/agent", "sidecar/source/base", "sidecar/source/inproc"],
    "sidecar/source": ["collector/trace/xplane", "common/base", "common/protocol", "sidecar/capture", "sidecar/source/base", "sidecar/source/inproc",
                       "sidecar/source/kineto"],
    "sidecar/source/framework": ["common/base", "common/protocol", "sidecar/capture", "sidecar/source/base", "sidecar/source/inproc"],
    "sidecar/spool": ["collector/store", "common/base", "common/text", "sidecar/capture"],
    "sidecar/stall": ["agent/wire", "collector/stall", "collector/store", "common/base", "common/memory", "common/text"],
    "sidecar/main": ["collector/store", "common/base", "common/grpc_tls", "common/http", "common/text", "sidecar/capture", "sidecar/enroll",
                     "sidecar/service", "sidecar/source", "sidecar/source/agent", "sidecar/source/base", "sidecar/source/framework",
                     "sidecar/source/inproc", "sidecar/source/kineto", "sidecar/spool", "sidecar/stall"],
    "operator/base": ["common/base", "common/text"],
    "operator/job": ["capture", "common/base", "common/text", "operator/base"],
    "operator/policy": ["capture", "collector/store", "common/base", "common/text", "operator/base"],
    "operator/objects": ["capture", "collector/store", "common/base", "common/protocol", "common/text", "operator/base", "operator/job",
                         "operator/policy"],
    "operator/kube": ["common/base", "common/fair", "common/text", "operator/base", "operator/objects"],
    "operator/access": ["common/base", "common/fair", "common/text", "operator/base", "operator/job", "operator/kube", "operator/objects", "operator/policy"],
    "operator/request": ["capture", "collector/store", "common/base", "common/fair", "common/protocol", "common/text", "operator/access", "operator/base",
                         "operator/job", "operator/kube", "operator/objects", "operator/policy"],
    "operator/schedule": ["common/base", "common/fair", "common/text", "operator/access", "operator/base", "operator/kube", "operator/objects", "operator/policy",
                          "operator/request"],
    "operator/trigger": ["common/base", "common/fair", "common/grpc_tls", "common/http", "common/text", "common/tls", "operator/access", "operator/base",
                         "operator/job", "operator/kube", "operator/objects", "operator/policy", "operator/request"],
    "operator/admission": ["common/base", "common/fair", "common/http", "common/protocol", "common/text", "operator/access", "operator/base", "operator/job",
                           "operator/kube", "operator/objects", "operator/schedule", "operator/trigger"],
    "operator/config": ["common/base", "common/protocol", "common/text", "common/yaml"],
    "operator/enroll": ["common/base", "common/grpc_tls", "common/http", "common/tls", "operator/base", "operator/kube"],
    "operator/metrics": ["capture", "collector/store", "common/base", "common/text", "common/tls", "operator/admission", "operator/kube",
                         "operator/request", "operator/schedule", "operator/trigger"],
    "operator/main": ["capture", "capture/worker", "common/base", "common/grpc_tls", "common/http", "common/text", "common/tls", "operator/access",
                      "operator/admission", "operator/base", "operator/config", "operator/enroll", "operator/kube", "operator/metrics",
                      "operator/objects", "operator/request", "operator/schedule", "operator/trigger"],
    "viewer/run": ["collector/store", "collector/store/catalog", "collector/trace/convert", "collector/trace/index", "collector/trace/xplane",
                   "common/base", "common/text"],
    "viewer/answers": ["collector/trace/analysis", "collector/trace/digest", "collector/trace/index", "collector/trace/tally", "collector/trace/xplane",
                       "common/base", "common/text", "viewer/run"],
    "viewer/api": ["collector/store/catalog", "collector/trace/convert", "collector/trace/index", "collector/trace/xplane", "common/base", "common/fair",
                   "common/http", "common/protocol", "common/text", "viewer/answers", "viewer/run"],
    "viewer/report": ["collector/trace/digest", "collector/trace/report", "common/base", "common/http", "common/text", "viewer/api", "viewer/run"],
    "viewer": ["collector/store/catalog", "common/base", "common/fair", "common/http", "common/text", "viewer/api", "viewer/report", "viewer/run"],
    "viewer/service": ["common/base", "common/fair", "common/http", "common/text", "common/yaml", "viewer"],
    "cli/base": ["capture", "collector/store", "collector/store/catalog", "collector/trace/analysis", "collector/trace/convert",
                 "collector/trace/kineto", "collector/trace/xplane", "common/base", "common/fair", "common/memory", "common/protocol", "common/text"],
    # The command runs a sidecar's session in its own process to capture stock profiler servers without Kubernetes.
    "cli/capture": ["capture", "capture/worker", "cli/base", "collector/store", "common/base", "common/protocol", "common/text", "sidecar/capture",
                    "sidecar/service", "sidecar/source/base", "sidecar/source/framework", "sidecar/spool"],
    "cli/export": ["cli/base", "collector/trace/analysis", "collector/trace/convert", "collector/trace/digest", "collector/trace/index",
                   "collector/trace/table", "common/base", "common/text"],
    "cli/runs": ["cli/base", "collector/store", "common/base"],
    "cli/kube": ["cli/base", "cli/runs", "collector/store", "common/base", "common/http", "common/protocol", "common/text", "operator/base",
                 "operator/job", "operator/objects"],
    "cli/fleet": ["cli/base", "cli/export", "cli/kube", "collector/store", "collector/trace/report", "common/base", "common/text"],
    "cli/show": ["cli/base", "common/base", "common/text", "common/tls", "operator/base", "operator/kube", "viewer", "viewer/run", "viewer/service"],
    "cli/stall": ["capture", "capture/worker", "cli/base", "cli/capture", "collector/stall", "common/base", "common/text"],
    "cli": ["cli/base", "cli/capture", "cli/fleet", "cli/kube", "cli/runs", "cli/show", "cli/stall", "common/base", "common/protocol"],
    "cli/report": ["cli/base", "collector/trace/digest", "collector/trace/report", "common/base", "common/text"],
}
ROOMS = sorted({module.split("/")[0] for module in ARROWS})
# Libraries, by the prefix of their headers, and the only folders, with those below them, that may include them.
FENCED = {
    "cpprest/": ["operator/kube"],
    "pplx/": ["operator/kube"],
    "yaml-cpp/": ["common/yaml", "operator/kube", "collector/store"],
    "prometheus/": ["operator/metrics", "sidecar/service"],
    "boost/": ["common/http"],
    "spdlog/": ["common/base"],
    "openssl/": ["common/base", "common/tls", "operator/kube"],
    "grpcpp/": ["capture/worker", "common/grpc_tls", "operator/enroll", "operator/trigger", "cli", "operator/main", "sidecar/enroll", "sidecar/source/base",
                "sidecar/service", "sidecar/main"],
    "cupti": ["agent/cupti"],
    "cuda.h": ["agent/cupti"],
    "re2/": ["viewer"],
    "simdjson.h": ["collector/trace/kineto"],
    "zlib.h": ["cli", "collector/trace/kineto", "common/http", "sidecar/spool"],
    "CLI/": ["cli", "operator/main", "sidecar/main"],
}
PICTURE = "ARCHITECTURE.md"
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')


def module_of(path):
    return Path(path).parent.as_posix()


def check():
    problems = []
    for source in sorted(p for room in ROOMS for p in (ROOT / room).rglob("*") if p.suffix in (".h", ".cc")):
        path = source.relative_to(ROOT)
        module = module_of(path)
        if module not in ARROWS:
            problems.append(f"{path}: module {module} is not in the table")
            continue
        for number, line in enumerate(source.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            target = found.group(1)
            if target.split("/")[0] in ROOMS:
                other = module_of(target)
                if other != module and other not in ARROWS[module]:
                    problems.append(f"{path}:{number}: {module} must not include {other}")
                if not (ROOT / target).exists():
                    problems.append(f"{path}:{number}: there is no {target}")
            for library, allowed in FENCED.items():
                if target.startswith(library) and not any(f"{module}/".startswith(f"{room}/") for room in allowed):
                    problems.append(f"{path}:{number}: only {', '.join(allowed)} may include {library}")
    return problems


def cycles():
    state = {}

    def visit(module, trail):
        if state.get(module) == "done":
            return []
        if module in trail:
            return [" -> ".join(trail[trail.index(module):] + [module])]
        found = [cycle for other in ARROWS[module] for cycle in visit(other, trail + [module])]
        state[module] = "done"
        return found

    return [f"the table has a cycle: {cycle}" for module in ARROWS for cycle in visit(module, [])]


def reachable(module):
    found = set(ARROWS[module])
    for other in ARROWS[module]:
        found |= reachable(other)
    return found


def picture():
    """Each module and the modules that it includes, without arrows that follow from others."""
    lines, lowest, alone = [], [], []
    for module in sorted(ARROWS, key=lambda m: (len(reachable(m)), m), reverse=True):
        direct = [other for other in ARROWS[module] if not any(other in reachable(via) for via in ARROWS[module])]
        if direct == ["common/base"]:
            lowest.append(module)
        elif direct:
            lines.append(f"{module:<20} -> {', '.join(direct)}")
        else:
            alone.append(module)
    return "\n".join(["```", *lines, f"{', '.join(lowest)} -> common/base", f"without arrows: {', '.join(alone)}", "```", ""])


def picture_problems(write):
    begin, end = "<!-- arrows: begin -->\n", "<!-- arrows: end -->"
    path = ROOT / PICTURE
    text = path.read_text()
    before, _, rest = text.partition(begin)
    shown, _, after = rest.partition(end)
    if write:
        path.write_text(before + begin + picture() + end + after)
    elif shown != picture():
        return [f"{PICTURE} does not show the arrows of the table: run tests/tools/check_layers.py --write"]
    return []


if __name__ == "__main__":
    found = check() + cycles()
    if not found:  # reachable() does not terminate on a table with a cycle.
        found = picture_problems("--write" in sys.argv)
    print("\n".join(found) or "all includes follow the arrows")
    sys.exit(1 if found else 0)
