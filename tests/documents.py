"""The README and the manual's pages: their blocks, and what the commands in them print, also the comparison with golden text.

A `console` block holds commands after `$ ` and their output, where a line `...` stands for lines left out.  Pages of
`ON_A_TERMINAL` show the output of a terminal of 80 columns, the others that of a pipe.  A `yaml` or `python` block whose
first line is `# NAME.yaml` or `# NAME.py` is a file of that name, which commands of the same page may use.  `python -m
tests.documents` writes the present output of the commands into the pages, and draws the pictures; read the difference before
you keep it.
"""

from __future__ import annotations

import io
import math
import os
import re
import runpy
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from unittest.mock import patch

from placesim.cli import main
from tests.cli.warm import write_warm
from tests.notebook import write_notebook
from tests.processes import EMPTY, ROOT, run_shell, set_surroundings

DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "placesim" / "manual").glob("*.md")))
ON_A_TERMINAL = ("README", "getting-started")
PIPE: Mapping[str, str] = MappingProxyType({"PLACESIM_JOBS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
"""Any number of processes finds the same, and one need not be started; a page's tests need no plugins but those they name."""
TERMINAL: Mapping[str, str] = MappingProxyType({**PIPE, "COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "dumb"})
PICTURES: Mapping[str, tuple[str, ...]] = MappingProxyType({"cifar10-towers.svg": ("show", "graphs/cifar10-towers.yaml")})
"""The pictures of `manual/pictures/`, and the commands that draw them."""
_FRACTION = re.compile(r"-?\d+\.\d*(?:e[-+]?\d+)?")
_ROW = re.compile(r"\[[\[# ]*#[# ]*\]*")
LEFT_OUT = "...\n"
TOLERANCE = 1e-5
"""How far a fraction may be from the shown one, relative to the larger: another BLAS or processor sums in another order."""
_ECHO = '; echo "exit code $?"'
_PLACESIM = re.compile(
    r"placesim (?P<arguments>(?:'[^']*'|[^'|<>;&$`])*?)(?P<merged> 2>&1)?"
    r"(?: > (?P<file>[\w.-]+)| && (?P<next>.*)| [|] (?P<filter>.*))?"
)
"""A line that begins with placesim, and the file or the commands that get its output, or the line that follows it."""
_SCRIPT = re.compile(r"python (?:-m (?P<module>tests\.[\w.]+)|(?P<file>\w+\.py))")
"""A line that runs one of the repository's modules, or a page's script."""


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


def surroundings_of(document: Path) -> Mapping[str, str]:
    """The environment variables under which a page's commands run."""
    return TERMINAL if document.stem in ON_A_TERMINAL else PIPE


def run(line: str, folder: Path, surroundings: Mapping[str, str] = EMPTY, given: str = "") -> tuple[int, str]:
    """Return the exit code and all output of a command; what begins the line runs in this process: placesim, or a script.

    placesim reads what is `given`.
    """
    if (script := _SCRIPT.fullmatch(line)) is not None:
        return _run_here(lambda: _run_script(script), folder, surroundings)[:2]
    found = _PLACESIM.fullmatch(line.removesuffix(_ECHO))
    if found is None:
        with patch.dict(os.environ, surroundings):
            ended = run_shell(f"{{ {line}; }} 2>&1", folder=folder)
        return ended.code, ended.output
    is_split = bool(found["filter"] or found["file"]) and not found["merged"]
    code, output, beside = _run_placesim(found["arguments"], folder, surroundings, is_split, given)
    if found["filter"]:
        code, output = _pass_on(output, found["filter"], folder, surroundings)
        return code, beside + output
    if found["file"]:
        (folder / found["file"]).write_text(output)
        return code, beside
    if found["next"] and not code:
        code, rest = run(found["next"], folder, surroundings)
        return code, output + rest
    return (0, f"{output}exit code {code}\n") if line.endswith(_ECHO) else (code, output)


def _pass_on(text: str, line: str, folder: Path, surroundings: Mapping[str, str]) -> tuple[int, str]:
    """The exit code and the output of a command that reads a text."""
    if _PLACESIM.fullmatch(line):
        return run(line, folder, surroundings, text)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        ended = run_shell(f"{{ cat {shlex.quote(file.name)} | {line}; }} 2>&1", folder=folder)
        return ended.code, ended.output


def _run_placesim(
    arguments: str, folder: Path, surroundings: Mapping[str, str], is_split: bool, given: str
) -> tuple[int, str, str]:
    """The exit code, the output, and what is written beside it; all is output where that is not split off."""
    words = shlex.split(arguments)
    if ".py" in arguments:  # a script has a process of its own, which writes to the process's own streams
        with tempfile.TemporaryDirectory(prefix="placesim-test-") as place:
            files = [Path(place, "output"), Path(place, "beside" if is_split else "output")]
            code = write_warm(folder, words, surroundings, files)
            output, beside = (file.read_bytes().decode() for file in files)
            return code, output, beside if is_split else ""
    with patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode()), encoding="utf-8")):
        return _run_here(lambda: main(words), folder, surroundings, is_split)


def _run_script(script: re.Match[str]) -> int:
    """Run a module or a file, which takes no arguments."""
    with patch.object(sys, "argv", [script[0]]):
        if script["module"]:
            runpy.run_module(script["module"], run_name="__main__")
        else:
            runpy.run_path(script["file"], run_name="__main__")
    return 0


def _run_here(
    call: Callable[[], int], folder: Path, surroundings: Mapping[str, str], is_split: bool = False
) -> tuple[int, str, str]:
    """The result of a call in a folder, what it prints, and what it writes beside that where it is split off."""
    printed, complained = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="", write_through=True) for _ in range(2))
    with (
        chdir(folder),
        patch.dict(os.environ, surroundings),
        redirect_stdout(printed),
        redirect_stderr(complained if is_split else printed),
    ):
        code = call()
    for stream in (printed, complained):
        stream.seek(0)
    return code, printed.read(), complained.read()


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


def is_shown(output: str, shown: str) -> bool:
    """Whether a command printed what is shown, where each line `...` stands for any number of lines."""
    first, *pieces = re.split(rf"^{re.escape(LEFT_OUT)}", shown, flags=re.MULTILINE)
    if not pieces:
        return is_same(output, shown)
    lines = output.splitlines(keepends=True)
    end = len(lines) - pieces[-1].count("\n")
    at = _find(lines, first, range(1))
    for piece in pieces[:-1]:
        at = at if at is None else _find(lines, piece, range(at, end))
    return at is not None and _find(lines, pieces[-1], range(end, end + 1)) is not None and at <= end


def _find(lines: Sequence[str], piece: str, starts: Iterable[int]) -> int | None:
    """Return the end of the first place among `starts` where the lines are those of `piece`; None where there is none."""
    size = piece.count("\n")
    return next((at + size for at in starts if is_same("".join(lines[at : at + size]), piece)), None)


def draw_picture(name: str, path: Path) -> None:
    """Draw a picture of `manual/pictures/` anew."""
    with chdir(ROOT):
        assert main([*PICTURES[name], "--quiet", "--output", str(path)]) == 0


def rewritten(text: str, surroundings: Mapping[str, str] = EMPTY) -> str:
    """A page with what its commands print now; of an output that is cut short, as many lines as before."""
    with tempfile.TemporaryDirectory() as place:
        make_place(Path(place), text)
        return re.sub(
            r"^```console\n(.*?)^```$",
            lambda found: _shown_anew(found[1], Path(place), surroundings),
            text,
            flags=re.MULTILINE | re.DOTALL,
        )


def _shown_anew(block: str, folder: Path, surroundings: Mapping[str, str]) -> str:
    shown = ((command, run(command.line, folder, surroundings)[1]) for command in commands_of(block))
    return "```console\n" + "".join(f"$ {command.line}\n{_cut(output, command.output)}" for command, output in shown) + "```"


def _cut(output: str, shown: str) -> str:
    if shown and is_shown(output, shown):
        return shown
    first, mark, rest = shown.partition(LEFT_OUT)
    if not mark:
        return output
    if rest:
        print("change by hand, as it is shown in pieces:", shown, output, sep="\n")
        return shown
    return "".join(output.splitlines(keepends=True)[: first.count("\n")]) + LEFT_OUT


if __name__ == "__main__":
    set_surroundings()
    for document in DOCUMENTS:
        document.write_text(rewritten(document.read_text(), surroundings_of(document)))
    with tempfile.TemporaryDirectory() as place:
        write_notebook(Path(place))
    for name in PICTURES:
        draw_picture(name, ROOT / "placesim" / "manual" / "pictures" / name)
