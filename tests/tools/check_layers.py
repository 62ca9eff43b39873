"""Includes may only follow the arrows of one table (see ARCHITECTURE.md); nothing points back."""

import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])

# Module: the modules that it may include besides itself. Transitive arrows are written out: what is
# not here is not meant.
ARROWS = {
    "collector/base": [],
    "collector/tls": ["collector/base"],
    "collector/grpc_tls": ["collector/base", "collector/tls"],
    "collector/http": ["collector/base", "collector/tls"],
    "collector/xplane": ["collector/base"],
    "collector/analysis": ["collector/base", "collector/xplane"],
    "collector/convert": ["collector/base", "collector/xplane"],
    "collector/index": ["collector/analysis", "collector/base", "collector/xplane"],
    "collector/logdir": ["collector/base"],
    "collector/storage": ["collector/base", "collector/logdir"],
    "collector/viewer": ["collector/analysis", "collector/base", "collector/convert", "collector/http", "collector/index",
                         "collector/xplane"],
    # Loaded into other people's programs: the C++ standard library and POSIX, nothing else.
    "sidecar/wire": [],
    "sidecar/sdk": [],
    "sidecar/agent": ["sidecar/wire", "sidecar/sdk"],
    "sidecar/session": ["collector/base", "collector/xplane", "collector/analysis", "collector/logdir"],
    "sidecar/source": ["sidecar/session", "sidecar/wire", "collector/analysis", "collector/base", "collector/logdir",
                       "collector/xplane", "collector/storage"],
    "sidecar/spool": ["sidecar/session", "collector/base", "collector/logdir", "collector/storage"],
    "sidecar/enroll": ["collector/base", "collector/grpc_tls", "collector/tls"],
    "sidecar/service": ["sidecar/session", "collector/base", "collector/logdir", "collector/storage"],
    "sidecar/main": ["sidecar/enroll", "sidecar/service", "sidecar/session", "sidecar/source", "sidecar/spool", "collector/base",
                     "collector/grpc_tls", "collector/http", "collector/storage", "collector/tls"],
    "operator/core": ["collector/base", "collector/analysis", "collector/logdir"],
    "operator/workers": ["operator/core", "collector/base", "collector/grpc_tls"],
    "operator/enroll": ["collector/base", "collector/grpc_tls", "collector/tls"],
    "operator/admission": ["operator/core", "operator/kube", "collector/base", "collector/http"],
    "operator/controller": ["operator/core", "collector/base", "collector/logdir"],
    "operator/config": ["collector/base"],
    "operator/kube": ["operator/core", "operator/controller", "operator/enroll", "collector/base", "collector/logdir"],
    "operator/metrics": ["operator/admission", "operator/core", "operator/controller", "collector/base", "collector/logdir"],
    # Without Kubernetes: a stock profiler server is captured through a sidecar in the command itself.
    "operator/cli": ["operator/core", "operator/workers", "collector/analysis", "collector/base", "collector/convert",
                     "collector/http", "collector/index", "collector/logdir", "collector/storage", "collector/viewer",
                     "collector/xplane",
                     "sidecar/service", "sidecar/session", "sidecar/source", "sidecar/spool"],
    "operator/main": ["operator/admission", "operator/config", "operator/enroll", "operator/controller", "operator/core", "operator/kube", "operator/metrics",
                      "operator/workers", "collector/base", "collector/grpc_tls", "collector/http", "collector/tls"],
}
# Libraries that only some modules may see.
FENCED = {
    "cpprest/": ["operator/kube"],
    "pplx/": ["operator/kube"],
    "yaml-cpp/": ["operator/kube", "operator/config", "collector/storage"],
    "prometheus/": ["operator/metrics", "sidecar/service"],
    "boost/": ["collector/http"],
    "spdlog/": ["collector/base"],
    "openssl/": ["collector/base", "collector/tls", "operator/kube"],
    "grpcpp/": ["collector/grpc_tls", "operator/enroll", "operator/workers", "operator/cli", "operator/main", "sidecar/enroll", "sidecar/source", "sidecar/service", "sidecar/main"],
    "cupti": ["sidecar/agent"],
    "cuda.h": ["sidecar/agent"],
    "re2/": ["collector/viewer"],
    "zlib.h": ["operator/cli", "collector/http"],
    "CLI/": ["operator/cli", "operator/main", "sidecar/main"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')


def module_of(path):
    return "/".join(Path(path).parts[:2])


def check():
    problems = []
    for source in sorted(p for top in ("collector", "sidecar", "operator") for p in (ROOT / top).rglob("*") if p.suffix in (".h", ".cc")):
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
            if target.split("/")[0] in ("collector", "sidecar", "operator"):
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


if __name__ == "__main__":
    found = check() + cycles()
    print("\n".join(found) or "all includes follow the arrows")
    sys.exit(1 if found else 0)
