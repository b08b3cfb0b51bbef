"""Command lines with odd numbers, names, control characters and file names that are no UTF-8."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.fuzz.corpus import examples
from tests.fuzz.inputs import STANDARD_INPUT, Input
from tests.fuzz.mutation import mutate_text
from tests.fuzz.surfaces.command_lines import OPTIONS, STEP_SECONDS, command_line, odd_option

_FILE_NAMES = (
    "g.yaml",
    "g",
    "\udcff.yaml",
    "a\x1b[31m.yaml",
    "a\nb.yaml",
    "é.yaml",
    "-",
    "--",
    "-x",
    " ",
    "a:1:2.yaml",
    "g.pb",
    "g.npy",
)


def inputs(rng: Random) -> Iterator[Input]:
    """Any command over an example, with options that are mostly wrong."""
    commands = tuple(OPTIONS)
    while True:
        name = rng.choice(_FILE_NAMES)
        command = rng.choice(commands)
        graph = rng.choice(examples())
        line = list(_line(rng, command, name))
        for _ in range(rng.choice((0, 1, 1, 2))):
            line += odd_option(rng, command)
        if "run" in line and "--timeout" not in line:
            line += ["--timeout", rng.choice((STEP_SECONDS, STEP_SECONDS, "-1", "0", "nan", "inf", "1e-9"))]
        yield Input(tuple(line), {name if name != "-" else STANDARD_INPUT: graph})


def _line(rng: Random, command: str, name: str) -> tuple[str, ...]:
    if command == "devices":
        return ("devices",)
    if command == "ops":
        return ("ops", rng.choice(("*", "Add", "Conv2D", "?", "[", "", mutate_text(rng, "MatMul").replace("\0", ""))))
    return command_line(rng, name, command)
