"""Checks that includes only follow the arrows of the table below (see ARCHITECTURE.md), and that the table has no cycle."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Each module, with all modules that it may include besides itself. Transitive arrows must be listed
# too. ARCHITECTURE.md shows the same arrows without those that follow from others.
COLLECTOR = ["collector/analysis", "collector/catalog", "collector/convert", "collector/digest", "collector/index", "collector/kineto", "collector/logdir",
             "collector/report", "collector/storage", "collector/table", "collector/xplane"]
ARROWS = {
    "common/base": [],
    "common/tls": ["common/base"],
    "common/grpc_tls": ["common/base", "common/tls"],
    "common/http": ["common/base", "common/tls"],
    "common/yaml": ["common/base"],
    "collector/xplane": ["common/base"],
    "collector/catalog": ["collector/logdir", "common/base"],
    "collector/analysis": ["collector/xplane", "common/base"],
    "collector/convert": ["collector/xplane", "common/base"],
    "collector/digest": ["collector/analysis", "collector/xplane", "common/base"],
    "collector/index": ["collector/analysis", "collector/xplane", "common/base"],
    "collector/kineto": ["collector/xplane", "common/base"],
    "collector/logdir": ["common/base"],
    "collector/report": ["collector/digest", "common/base"],
    "collector/storage": ["collector/logdir", "common/base"],
    # The parquet crate is a part of the object-store bridge.
    "collector/table": ["collector/analysis", "collector/convert", "collector/digest", "collector/logdir", "collector/report", "collector/storage", "collector/xplane",
                        "common/base"],
    # The SDK and the agent are loaded into users' programs, so that they may only depend on the C++ standard library and POSIX.
    "agent/sdk": [],
    "agent/wire": [],
    "agent/cupti": ["agent/wire"],
    "agent/recorder": ["agent/cupti", "agent/sdk", "agent/wire"],
    "sidecar/session": ["collector/analysis", "collector/convert", "collector/digest", "collector/logdir", "collector/xplane", "common/base"],
    "sidecar/source": ["agent/wire", "collector/analysis", "collector/kineto", "collector/logdir", "collector/storage", "collector/xplane",
                       "common/base", "sidecar/session"],
    "sidecar/spool": ["collector/logdir", "collector/storage", "common/base", "sidecar/session"],
    "sidecar/enroll": ["common/base", "common/grpc_tls", "common/tls"],
    "sidecar/service": ["collector/logdir", "collector/storage", "common/base", "common/tls", "sidecar/session"],
    "sidecar/main": ["collector/storage", "common/base", "common/grpc_tls", "common/http", "common/tls", "sidecar/enroll",
                     "sidecar/service", "sidecar/session", "sidecar/source", "sidecar/spool"],
    "operator/core": ["collector/analysis", "collector/logdir", "common/base"],
    "operator/objects": ["collector/logdir", "common/base", "operator/core"],
    "operator/config": ["common/base", "common/yaml"],
    "operator/workers": ["common/base", "common/grpc_tls", "common/tls", "operator/core"],
    "operator/report": ["collector/digest", "collector/report", "common/base", "operator/core"],
    "operator/enroll": ["common/base", "common/grpc_tls", "common/http", "common/tls"],
    "operator/controller": ["collector/logdir", "common/base", "operator/core"],
    "operator/admission": ["common/base", "common/http", "operator/core", "operator/objects"],
    "operator/alerts": ["common/base", "common/http", "common/tls", "operator/core"],
    "operator/kube": ["collector/logdir", "common/base", "operator/controller", "operator/core", "operator/enroll", "operator/objects"],
    "operator/metrics": ["collector/logdir", "common/base", "common/tls", "operator/admission", "operator/alerts", "operator/controller", "operator/core"],
    "operator/main": ["common/base", "common/grpc_tls", "common/http", "common/tls", "operator/admission", "operator/alerts", "operator/config",
                      "operator/controller", "operator/core", "operator/enroll", "operator/kube", "operator/metrics", "operator/objects",
                      "operator/report", "operator/workers"],
    "viewer": ["collector/analysis", "collector/catalog", "collector/convert", "collector/digest", "collector/index", "collector/logdir", "collector/report",
               "collector/xplane", "common/base", "common/http"],
    "viewer/service": ["common/base", "common/http", "common/yaml", "viewer"],
    "cli/cluster": ["collector/logdir", "common/base", "operator/core", "operator/objects"],
    # The program of the command is also the sidecar's, and runs one in its own process to capture stock profiler servers without Kubernetes.
    "cli": [*COLLECTOR, "cli/cluster", "common/base", "common/grpc_tls", "common/http", "common/tls", "operator/core", "operator/kube", "operator/objects", "operator/report", "operator/workers",
            "sidecar/enroll", "sidecar/main", "sidecar/service", "sidecar/session", "sidecar/source", "sidecar/spool", "viewer", "viewer/service"],
}
ROOMS = sorted({module.split("/")[0] for module in ARROWS})
# Libraries, by the prefix of their headers, and the only modules that may include them.
FENCED = {
    "cpprest/": ["operator/kube"],
    "pplx/": ["operator/kube"],
    "yaml-cpp/": ["common/yaml", "operator/kube", "collector/storage"],
    "prometheus/": ["operator/metrics", "sidecar/service"],
    "boost/": ["common/http"],
    "spdlog/": ["common/base"],
    "openssl/": ["common/base", "common/tls", "operator/kube"],
    "grpcpp/": ["common/grpc_tls", "operator/enroll", "operator/workers", "cli", "operator/main", "sidecar/enroll", "sidecar/source",
                "sidecar/service", "sidecar/main"],
    "cupti": ["agent/cupti"],
    "cuda.h": ["agent/cupti"],
    "re2/": ["viewer"],
    "simdjson.h": ["collector/kineto"],
    "zlib.h": ["cli", "collector/kineto", "common/http", "sidecar/spool"],
    "CLI/": ["cli", "operator/main", "sidecar/main"],
}
PICTURE = "ARCHITECTURE.md"
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')


def module_of(path):
    parts = Path(path).parts
    return parts[0] if len(parts) == 2 else "/".join(parts[:2])


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
                if target.startswith(library) and module not in allowed:
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
    lines = []
    for module in sorted(ARROWS, key=lambda m: (len(reachable(m)), m), reverse=True):
        direct = [other for other in ARROWS[module] if not any(other in reachable(via) for via in ARROWS[module])]
        lines.append(f"{module:<20} -> {', '.join(direct)}" if direct else module)
    return "```\n" + "\n".join(lines) + "\n```\n"


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
