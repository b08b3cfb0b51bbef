"""Outcomes of inputs -> findings: what must never happen, whatever the input."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.fuzz.inputs import Input
from tests.fuzz.runner import HANG, ROOT, Outcome, Runner

GOOD_CODES = (0, 1, 2, 130)
DEFECT = "defect"
_DEFECTS = (b"a bug in placesim", b"Traceback (most recent call last)")
_HERE = re.escape(f"{ROOT}/")
_WARNING = re.compile(rf"^(?:{_HERE})?\S+:\d+: (\w*Warning): ".encode(), re.MULTILINE)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WORDING = re.compile(r"'[^']*'?|\d+|\S*:(?= |$)|(?:^|(?<=\s))\S*[/.@]\S*")
"""What is not the wording of a message: names, numbers and places."""
_FRAME = re.compile(rf'^  File "{_HERE}((?:placesim|tests)/[^"]*)", line (\d+)(?:,)? in (\S+)', re.MULTILINE)
_ERROR = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):\n"
_CAUSE = "The above exception was the direct cause of the following exception:"


class Finding(NamedTuple):
    """What is wrong; two with the same `key` are one."""

    kind: str
    error: str
    frame: str
    message: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.error, self.frame


def judge(given: Input, outcome: Outcome, runner: Runner) -> list[Finding]:
    """What is wrong with an outcome; an input that ends in a defect is run once more, to see where."""
    if outcome.fate:
        kind = HANG if outcome.fate == HANG else "signal"
        return [Finding(kind, outcome.fate, _innermost(outcome.stack, first=True) or given.command, "")]
    if any(phrase in outcome.stderr for phrase in _DEFECTS):
        return [_defect(given, outcome, runner)]
    return list(_wrongs(given, outcome))


def _wrongs(given: Input, outcome: Outcome) -> Iterator[Finding]:
    """What is wrong with an outcome that is no defect; instead of a frame it has the command, or the wording around it."""
    place = " --format ".join(filter(None, (given.command, given.form)))
    if outcome.code not in GOOD_CODES:
        yield Finding("exit code", str(outcome.code), place, outcome.stderr.decode(errors="replace"))
    for found in _WARNING.finditer(outcome.stderr):
        place = found[0].decode(errors="replace").removeprefix(f"{ROOT}/").rpartition(f": {found[1].decode()}")[0]
        yield Finding("warning", found[1].decode(), place, "")
    for touched in outcome.touched:
        yield Finding("change outside", touched.partition(" ")[0], place, touched)
    is_binary = given.command == "convert" and given.form == "pb"
    for name, text in (("stdout", b"" if is_binary else outcome.stdout), ("stderr", outcome.stderr)):
        yield from _text_problems(name, text, place)
    may_be_silent = outcome.code != 0 or given.command in ("convert", "show")  # those may write a file instead
    if given.form == "json" and not (is_json(outcome.stdout) or (may_be_silent and not outcome.stdout)):
        yield Finding("not JSON", "", place, outcome.stdout[:200].decode(errors="replace"))


def _text_problems(name: str, text: bytes, place: str) -> Iterator[Finding]:
    try:
        found = _CONTROL.search(text.decode())
    except UnicodeDecodeError as error:
        yield Finding("not UTF-8", name, place, str(error))
        return
    if found:
        before = found.string[: found.start()].rpartition("\n")[2]
        wording = " ".join(_WORDING.sub(" ", before).split())[-60:] or place
        yield Finding("control character", name, wording, repr(found.string[max(0, found.start() - 60) : found.end() + 20]))


def is_json(text: bytes) -> bool:
    """Whether a text is JSON as the standard has it (no NaN), or a line of JSON for each graph."""
    return _parses(text) or all(map(_parses, text.splitlines()))


def _parses(text: bytes) -> bool:
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _defect(given: Input, outcome: Outcome, runner: Runner) -> Finding:
    """A defect by the innermost frame of ours, which a second run with `--debug` tells."""
    message = outcome.stderr.decode(errors="replace")
    text = message
    if _TRACEBACK not in text:
        text = runner.run(Input(("--debug", *given.argv), given.files)).stderr.decode(errors="replace")
    block = _first_cause(text)
    errors = [found[1] for found in _ERROR.finditer(block)]
    return Finding(DEFECT, errors[0] if errors else "", _innermost(block), message.strip()[-400:])


def _first_cause(text: str) -> str:
    """The traceback of the error behind a printed one, as far as it was raised from another on purpose."""
    blocks = text.split(_TRACEBACK)
    last = len(blocks) - 1
    while last > 1 and _CAUSE in blocks[last - 1]:
        last -= 1
    return blocks[last]


def _innermost(text: str, *, first: bool = False) -> str:
    """`placesim/cli/commands/run.py:12 in run`: our last frame of a traceback, or the first of a dumped stack."""
    frames = [frame for frame in _FRAME.findall(text) if not frame[0].startswith("tests/fuzz/worker")]
    if not frames:
        return ""
    file, line, function = frames[0 if first else -1]
    return f"{file}:{line} in {function}"
