"""What a run leaves in $OUT: few files, none large. Findings and figures are there as soon as they are known, because a run may be cut short."""

import json
import os
import tarfile
from pathlib import Path

MAX_BYTES = 15 << 20


def _pack(out, root, files):
    """As many of the files, the smallest first, as stay below the limit; returns the names of the others."""
    left_out, total = [], 0
    with tarfile.open(out, "w:gz", compresslevel=6) as tar:
        for path in sorted(files, key=lambda path: path.stat().st_size):
            size = path.stat().st_size
            if total + size > 2 * MAX_BYTES or out.stat().st_size + size // 2 > MAX_BYTES:
                left_out.append(str(path.relative_to(root)))
                continue
            tar.add(path, str(path.relative_to(root)))
            total += size
    if out.stat().st_size > MAX_BYTES:
        out.unlink()
        return [str(path.relative_to(root)) for path in files]
    return left_out


def _write(path, text):
    """Whole or not at all, whenever the run is killed."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def note(rows, figures):
    """What is known so far: findings.json and figures.json. False if $OUT is not set."""
    target = os.environ.get("OUT")
    if not target:
        return False
    out = Path(target)
    out.mkdir(parents=True, exist_ok=True)
    _write(out / "findings.json", json.dumps([{"step": name, "seconds": round(seconds, 1), "result": finding.result, "text": finding.text}
                                              for name, seconds, finding in rows], indent=1) + "\n")
    _write(out / "figures.json", json.dumps(figures, indent=1) + "\n")
    return True


def leave(report, rows, figures, folder):
    """All of it: also report.md, logs.tar.gz and traces.tar.gz."""
    if not note(rows, figures):
        return
    out = Path(os.environ["OUT"])
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    small = [path for path in files if path.suffix in (".log", ".json") and "traces" not in path.parts and path.stat().st_size < 4 << 20
             and not path.name.endswith(".trace.json")]
    traces = [path for path in files if path.name.endswith((".xplane.pb", ".trace.json"))]
    left_out = _pack(out / "logs.tar.gz", folder, small) + _pack(out / "traces.tar.gz", folder, traces)
    missing = f"\nNot in $OUT, because they are large: {', '.join(left_out)}\n" if left_out else ""
    _write(out / "report.md", report + missing)
