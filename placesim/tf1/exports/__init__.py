"""Implementation of each public name: one table per topic, joined on first use.

A table is a module of this folder.  Its `ROWS` map a module of `placesim.tf1` to the public names that it implements: `nn.relu`
is `relu` there, and `NAME=WHAT` is `WHAT` there.  Its `OPS`, as `NAME=OP`, are implemented by the op's generated function.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module, resources
from typing import NamedTuple


class Export(NamedTuple):
    """Implementation of a public name: a module of `placesim.tf1` and a name in it, or no module and an op."""

    module: str
    name: str


@cache
def table() -> dict[str, Export]:
    """Every public name, without `tf.`."""
    found: dict[str, Export] = {}
    for entry in sorted(resources.files(__name__).iterdir(), key=lambda item: item.name):
        topic, _, ending = entry.name.partition(".")
        if ending != "py" or topic == "__init__":
            continue
        rows = import_module(f"{__name__}.{topic}")
        found |= {name: Export("", op) for name, op in _pairs(getattr(rows, "OPS", ""))}
        for module, names in getattr(rows, "ROWS", {}).items():
            found |= {name: Export(module, what) for name, what in _pairs(names)}
    return found


def _pairs(text: str) -> list[tuple[str, str]]:
    pairs = (item.partition("=") for item in text.split())
    return [(name, what or name.rpartition(".")[2]) for name, _, what in pairs]


@cache
def packages() -> frozenset[str]:
    """Every public name that is a module: `nn`, `math`, `train`."""
    found: set[str] = set()
    for name in table():
        parts = name.split(".")
        found |= {".".join(parts[:i]) for i in range(1, len(parts))}
    return frozenset(found)
