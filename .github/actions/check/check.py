"""Run `placesim check` on the graphs that the action's inputs name, and print GitHub's annotations."""

from __future__ import annotations

import glob
import os
import secrets
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path


def find_graphs(patterns: str) -> list[str]:
    """The files and SavedModels that globs match, one glob a line, each once; exits where a glob matches none."""
    found: dict[str, None] = {}
    for pattern in filter(None, map(str.strip, patterns.splitlines())):
        matched = sorted(filter(is_graph, glob.glob(pattern, recursive=True)))
        if not matched:
            sys.exit(f"no graph matches {pattern!r}")
        found |= dict.fromkeys(f"./{path}" if path.startswith("-") else path for path in matched)
    return list(found)


def is_graph(path: str) -> bool:
    """Whether a path may be a graph: `**` also matches folders, which are graphs only as SavedModels."""
    return not os.path.isdir(path) or any(os.path.exists(os.path.join(path, f"saved_model.{kind}")) for kind in ("pb", "pbtxt"))


def main() -> int:
    """The exit code of `placesim check`."""
    graphs = find_graphs(os.environ["GRAPHS"])
    policy = ["--policy", os.environ["POLICY"]] if os.environ.get("POLICY") else []
    options = [*policy, *shlex.split(os.environ.get("OPTIONS", ""))]
    token = secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as place:
        annotations = Path(place, "annotations")
        # -P: modules of the checked repository, the current folder, take no module's place
        output = ["--format", "github", "--output", str(annotations)]
        command = [sys.executable, "-P", "-m", "placesim", "check", *options, *output]
        # an error's text may quote a file, and must start no workflow command
        print(f"::stop-commands::{token}", flush=True)
        code = subprocess.run([*command, *graphs], check=False).returncode
        print(f"\n::{token}::")
        if annotations.exists():
            print(annotations.read_text(encoding="utf-8"), end="")
    return code


if __name__ == "__main__":
    sys.exit(main())
