"""A simulated step of `graphs/cifar10-towers.yaml` with more or fewer towers, a GPU each.

    python -m tests.benchmarks.towers                 a table: 1, 2 and 4 towers, on K80s and on V100s
    python -m tests.benchmarks.towers 4 --images 128  that graph for four GPUs as JSON, which every command takes

The file has two towers of 8 images.  The graph of any other number is the file's with that many devices of the towers' scope:
the batch is split between them, and the CPU averages over them.
"""

from __future__ import annotations

import argparse
import copy
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

import placesim
from placesim.formats.sources.loading import LoadedGraph, load
from placesim.machine.options import make_options
from placesim.prediction.time_breakdown import TimeStudy
from placesim.report.text.amounts import readable_seconds
from placesim.studies.time_study import study_time

FILE = Path(placesim.__file__).parent.parent / "graphs" / "cifar10-towers.yaml"
FILE_TOWERS, FILE_IMAGES = 2, 8
NUMBERS = (1, 2, 4)
IMAGES = (8, 128)
"""The file's, and those of TensorFlow's tutorial on CIFAR-10."""
_WIDTH = 26
MODELS = ("Tesla K80", "Tesla V100-SXM2-16GB")


def tower_graph(towers: int, images: int = FILE_IMAGES) -> dict[str, Any]:
    """The file's graph with so many towers, each of so many images."""
    document: dict[str, Any] = yaml.load(FILE.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    document["nodes"] = [_scaled(entry, towers, images) for entry in document["nodes"]]
    document["devices"]["gpu"]["count"] = towers
    feed = document["run"][-1]["feed"]
    feed["images"]["random_normal"][0] = towers * images
    feed["labels"] = [number % 10 for number in range(towers * images)]
    return document


def _scaled(entry: dict[str, Any], towers: int, images: int) -> dict[str, Any]:
    found = copy.copy(entry)
    if found.get("op") == "Placeholder":
        found["shape"] = [towers * images, *found["shape"][1:]]
    elif found.get("op") == "Split":
        found["attrs"] = {"num_split": towers}
    elif isinstance(found.get("device"), list):
        found["device"] = [f"/gpu:{number}" for number in range(towers)]
    if "inputs" in found:
        found["inputs"] = [_of_images(value, towers, images) for value in found["inputs"]]
    if "nodes" in found:
        found["nodes"] = [_scaled(inner, towers, images) for inner in found["nodes"]]
    return found


def _of_images(value: Any, towers: int, images: int) -> Any:
    """A shape that begins with the number of a tower's images, or the share of one tower."""
    if isinstance(value, list) and len(value) > 1 and value[0] == FILE_IMAGES:
        return [images, *value[1:]]
    return 1 / towers if value == 1 / FILE_TOWERS else value


class Row(NamedTuple):
    """A step on a machine."""

    towers: int
    images: int
    model: str
    study: TimeStudy

    @property
    def images_per_second(self) -> float:
        return self.towers * self.images / self.study.step.seconds


def simulated(towers: int, images: int, model: str) -> Row:
    """The step of a number of towers on as many GPUs of a model."""
    options = make_options({"gpu": towers, "gpu_model": model})
    return Row(towers, images, model, study_time(_loaded(towers, images), options, f"{towers} towers"))


@cache
def _loaded(towers: int, images: int) -> LoadedGraph:
    return load(tower_graph(towers, images), None, make_options({}))


def table() -> str:
    """For each number of GPUs the step's time and the images a second, on each model and for each number of images."""
    machines = [(model, images) for model in MODELS for images in IMAGES]
    lines = [f"GPUs  {''.join(f'{short_model(model)}, {images} images each'.ljust(_WIDTH) for model, images in machines)}"]
    for towers in NUMBERS:
        rows = [simulated(towers, images, model) for model, images in machines]
        cells = (f"{readable_seconds(row.study.step.seconds)}, {row.images_per_second:,.0f}/s".ljust(_WIDTH) for row in rows)
        lines.append(f"{towers:<6}{''.join(cells)}")
    return "\n".join(map(str.rstrip, lines))


def short_model(model: str) -> str:
    """`Tesla V100-SXM2-16GB` -> `V100`."""
    return model.removeprefix("Tesla ").partition("-")[0]


def main() -> None:
    """The table, or a graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("towers", type=int, nargs="?", help="write the graph of so many towers")
    parser.add_argument("--images", type=int, default=FILE_IMAGES, help="images of a tower")
    asked = parser.parse_args()
    print(table() if asked.towers is None else json.dumps(tower_graph(asked.towers, asked.images)))


if __name__ == "__main__":
    main()
