"""The README and the manual's pages: their blocks, and what the commands in them print, also the comparison with golden text.

A `console` block holds commands after `$ ` and what each prints.  A `yaml` or `python` block whose first line is `#
NAME.yaml` or `# NAME.py` is a file of that name, which commands of the same page may use.  `python -m tests.documents`
writes what the commands print now into the pages; read the difference before you keep it.
"""

from __future__ import annotations

import io
import math
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from placesim.cli import main
from tests.processes import ROOT, run_shell, set_surroundings

DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "placesim" / "manual").glob("*.md")))
_FRACTION = re.compile(r"-?\d+\.\d*(?:e[-+]?\d+)?")
_ROW = re.compile(r"\[[\[# ]*#[# ]*\]*")
TOLERANCE = 1e-5
"""How far a fraction may be from the shown one, relative to the larger: another BLAS or processor sums in another order."""
_ECHO = '; echo "exit code $?"'
_PLACESIM = re.compile(
    r"(?P<environment>(?:[A-Z]+=\w+ )*)placesim (?P<arguments>(?:'[^']*'|[^'|<>;&$`])*?)(?P<merged> 2>&1)?(?P<filter> [|].*)?"
)
"""A line that begins with placesim, and the commands that read its output."""


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
    """The exit code and all that a command prints; placesim runs in this process where it begins the line."""
    found = _PLACESIM.fullmatch(line.removesuffix(_ECHO))
    # a script has a process of its own, which writes to the process's own streams
    if found is None or ".py" in found["arguments"]:
        ended = run_shell(f"{{ {line}; }} 2>&1", folder=folder)
        return ended.code, ended.output
    printed, complained = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="", write_through=True) for _ in range(2))
    environment = dict(part.split("=") for part in found["environment"].split())
    beside = complained if found["filter"] and not found["merged"] else printed
    with chdir(folder), patch.dict(os.environ, environment), redirect_stdout(printed), redirect_stderr(beside):
        code = main(shlex.split(found["arguments"]))
    printed.seek(0)
    output = printed.read()
    if found["filter"]:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="") as file:
            file.write(output)
            file.flush()
            complained.seek(0)
            ended = run_shell(f"{{ cat {shlex.quote(file.name)} {found['filter']}; }} 2>&1", folder=folder)
            return ended.code, complained.read() + ended.output
    return (0, f"{output}exit code {code}\n") if line.endswith(_ECHO) else (code, output)


def is_same(one: str, two: str) -> bool:
    """Equal to the byte, but for the last digits of fractions, and how the rows of an array are padded for them."""
    if one == two:
        return True
    if _without_fractions(one) != _without_fractions(two):
        return False
    numbers = zip(map(float, _FRACTION.findall(one)), map(float, _FRACTION.findall(two)), strict=True)
    return all(math.isclose(a, b, rel_tol=TOLERANCE) for a, b in numbers)


def _without_fractions(text: str) -> str:
    return _ROW.sub(lambda row: row[0].replace(" ", ""), _FRACTION.sub("#", text))


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
    set_surroundings()
    for document in DOCUMENTS:
        document.write_text(rewritten(document.read_text()))
