"""Implementation of each public name: one table per topic, joined on first use.

A table is a module beside this one with `ROWS`: a module of `placesim.tf1` -> the public names that are in it, each as `NAME`
(of `tf`, dots included: `nn.relu`; the module's own name for it is the last part) or `NAME=WHAT`.  `OPS` names what is an op's
generated function: `NAME=OP`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module, resources
from typing import NamedTuple


class Export(NamedTuple):
    """Place of a public name: a module of `placesim.tf1` and the name there; or an op, and no module."""

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
