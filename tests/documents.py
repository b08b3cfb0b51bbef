"""The README and the manual's pages: their blocks, and what the commands in them print.

A `console` block holds commands after `$ ` and what each prints.  A `yaml` or `python` block whose first line is `#
NAME.yaml` or `# NAME.py` is a file of that name, which commands of the same page may use.  `python -m tests.documents`
writes what the commands print now into the pages; read the difference before you keep it.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from placesim.cli import main

ROOT = Path(__file__).parent.parent
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "placesim" / "manual").glob("*.md")))
_ECHO = '; echo "exit code $?"'
_STYLES = ("FORCE_COLOR", "NO_COLOR", "COLUMNS")


class Block(NamedTuple):
    """A fenced block: the word after the fence, and the text."""

    language: str
    text: str


class Command(NamedTuple):
    """A command of a `console` block, and the output shown under it."""

    line: str
    output: str


def blocks(text: str) -> list[Block]:
    found = re.findall(r"^```([a-z]+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(*parts) for parts in found]


def commands(text: str) -> list[Command]:
    """Each `$ command` and the output shown under it."""
    return [command for block in blocks(text) if block.language == "console" for command in commands_of(block.text)]


def commands_of(text: str) -> Iterator[Command]:
    for part in text.removeprefix("$ ").split("\n$ "):
        line, _, output = part.partition("\n")
        yield Command(line, output if output.endswith("\n") or not output else output + "\n")


def files(text: str) -> dict[str, str]:
    """The files that a page shows, by name."""
    shown = [block.text for block in blocks(text) if block.language in ("yaml", "python")]
    named = [(re.match(r"# (\S+\.(?:yaml|py))\n", block), block) for block in shown]
    return {head[1]: content for head, content in named if head is not None}


def make_place(folder: Path, text: str) -> None:
    """What a page's commands find where they run: its own files, and the repository's graphs and tests."""
    for name in ("graphs", "tests"):
        (folder / name).symlink_to(ROOT / name)
    for name, content in files(text).items():
        (folder / name).write_text(content)


def run(line: str, folder: Path) -> tuple[int, str]:
    """The exit code and all that a command prints; one without a shell's signs runs in this process."""
    plain = line.removesuffix(_ECHO)
    # a script has a process of its own, which writes to the process's own streams
    if not plain.startswith("placesim ") or ".py" in plain or set("|<>;&$`") & set(re.sub(r"'[^']*'", "", plain)):
        return _run_in_shell(line, folder)
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="", write_through=True)
    environment = {name: value for name, value in os.environ.items() if name not in _STYLES}
    with chdir(folder), redirect_stdout(printed), redirect_stderr(printed), patch.dict(os.environ, environment, clear=True):
        code = main(shlex.split(plain)[1:])
    printed.seek(0)
    output = printed.read()
    return (code, output) if plain == line else (0, f"{output}exit code {code}\n")


def _run_in_shell(line: str, folder: Path) -> tuple[int, str]:
    python = f'python() {{ "{sys.executable}" "$@"; }}\nplacesim() {{ python -m placesim "$@"; }}'
    script = f"{python}\n{{ {line}; }} 2>&1"
    environment = {name: value for name, value in os.environ.items() if name not in _STYLES} | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    return ended.returncode, ended.stdout


def rewritten(text: str) -> str:
    """A page with what its commands print now."""
    with tempfile.TemporaryDirectory() as place:
        make_place(Path(place), text)
        return re.sub(
            r"^```console\n(.*?)^```$", lambda found: _shown_anew(found[1], Path(place)), text, flags=re.MULTILINE | re.DOTALL
        )


def _shown_anew(block: str, folder: Path) -> str:
    lines = [command.line for command in commands_of(block.rstrip("\n"))]
    return "```console\n" + "".join(f"$ {line}\n{run(line, folder)[1]}" for line in lines) + "```"


if __name__ == "__main__":
    for document in DOCUMENTS:
        document.write_text(rewritten(document.read_text()))
