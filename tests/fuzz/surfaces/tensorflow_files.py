"""SavedModels, MetaGraphs, GraphDefs and checkpoints of TensorFlow's with changed bytes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.fuzz.corpus import tensorflow_files
from tests.fuzz.inputs import Input
from tests.fuzz.mutation import mutate_bytes, mutate_message, mutate_text
from tests.fuzz.surfaces.command_lines import command_line


def inputs(rng: Random) -> Iterator[Input]:
    """One model a time; of its files one or more are changed, swapped or missing."""
    files = tensorflow_files()
    models = sorted({name.partition("/")[0] for name in files})
    while True:
        model = rng.choice(models)
        own = {name.replace(model, "model", 1): content for name, content in files.items() if name.partition("/")[0] == model}
        for _ in range(rng.choice((1, 1, 2))):
            _change(rng, own)
        line = command_line(rng, _graph(rng, sorted(own)), rng.choice(("", "", "convert", "run")), is_sane=rng.random() < 0.9)
        if rng.random() < 0.3 and "--checkpoint" not in line and line[0] not in ("devices", "ops"):
            line += ("--checkpoint", rng.choice(("model/model.ckpt", "model/variables/variables", "model")))
        yield Input(line, own)


def _graph(rng: Random, names: list[str]) -> str:
    if any(name.startswith("model/") for name in names):
        if rng.random() < 0.5 and "model/saved_model.pb" in names:
            return "model"
        graphs = [name for name in names if name.endswith((".meta", ".pb"))]
        return rng.choice(graphs or names) if rng.random() < 0.9 else rng.choice(names)
    return rng.choice(names or ["model"])


def _change(rng: Random, files: dict[str, bytes]) -> None:
    if not files:
        return
    names = sorted(files)
    name = rng.choice([name for name in names if rng.random() < 0.3 or "data-" not in name] or names)
    kind = rng.randrange(12)
    if kind == 0:
        del files[name]
    elif kind == 1:
        files[name] = files[rng.choice(sorted(files))]
    elif kind == 2 and name.endswith(("pbtxt", "checkpoint")):
        files[name] = mutate_text(rng, files[name].decode(errors="replace")).encode("utf-8", "surrogatepass")
    elif kind < 10 and name.endswith((".pb", ".meta")):
        for _ in range(rng.choice((1, 1, 2, 5))):
            files[name] = mutate_message(rng, files[name])
    else:
        files[name] = mutate_bytes(rng, files[name])
