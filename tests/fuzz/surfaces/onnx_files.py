"""Models of ONNX with changed bytes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.fuzz.corpus import onnx_files
from tests.fuzz.inputs import Input
from tests.fuzz.mutation import mutate_bytes, mutate_message
from tests.fuzz.surfaces.command_lines import command_line


def inputs(rng: Random) -> Iterator[Input]:
    """One model a time, of which some messages, or some bytes, are changed."""
    models = onnx_files()
    while True:
        content = rng.choice(models)
        for _ in range(rng.choice((1, 1, 2, 4))):
            content = mutate_message(rng, content) if rng.random() < 0.85 else mutate_bytes(rng, content)
        line = command_line(rng, "model.onnx", rng.choice(("", "", "convert", "run")), is_sane=rng.random() < 0.9)
        if rng.random() < 0.3 and line[0] not in ("devices", "ops"):
            line += ("--allow-unknown", rng.choice(("cpu", "cpu,gpu", "moon")))
        yield Input(line, {"model.onnx": content})
