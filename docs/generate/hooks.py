"""A hook for MkDocs: adds the pages from outside docs/, and rewrites links for the site."""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]

# Pages that belong at the top of the repository by convention, and their places on the site.
OUTSIDE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "explanation/architecture.md",
    "SECURITY.md": "explanation/security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}

# Matches code first, so that text in code that looks like a link is not changed.
LINK = re.compile(r"(?P<code>^```.*?^```|`[^`\n]*`)|(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)",
                  re.MULTILINE | re.DOTALL)


def on_files(files, config):
    for outside, page in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / outside)))
    return files


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri
    origin = next((outside for outside, inside in OUTSIDE.items() if inside == here), f"docs/{here}")

    def link(found):
        target = found["target"]
        if found["code"] or not target or re.match(r"[a-z]+:|#", target):
            return found[0]
        path, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
        inside = OUTSIDE.get(path) or (path[5:] if path.startswith("docs/") else "")
        if files.get_file_from_path(inside):
            return f"{found['image']}[{found['text']}]({posixpath.relpath(inside, posixpath.dirname(here))}{'#' + anchor if anchor else ''})"
        # The target is a file of the repository, but not a page of the site.
        if config.repo_url:
            return f"[{found['text']}]({config.repo_url.rstrip('/')}/blob/HEAD/{path})"
        return found["text"]

    return LINK.sub(link, markdown)
