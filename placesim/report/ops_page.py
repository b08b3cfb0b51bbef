"""Sections of the manual's page `ops`, generated from the op table on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby

from placesim.inspection.op_facts import facts_of, load_registry
from placesim.ops.kernels.op_families import OP_FAMILIES
from placesim.ops.notation import format_signature
from placesim.ops.registry import Registry
from placesim.report.text.ops import fact_lines

_INTRODUCTION = """
The {count} ops of TensorFlow {release}, by name.  TensorFlow has a kernel for {placeable} of them, so that they can be placed;
placesim executes {executed} with numpy.  `placesim ops NAME` prints the same facts about one op.

Under an op's name are its inputs and its outputs, each with an element type or with the attr that holds its type (`N * T`: as
many tensors as the attr `N` says; `Ref(T)`: a reference to a variable).  The lines below them are:

- `flags`: `stateful` ops are neither merged nor folded; `uninitialized_input` ops take a variable that has no value yet
- `deprecated`: the GraphDef version from which on no graph may contain the op, and TensorFlow's advice on what to use instead
- `attr`: its type, or the allowed values in braces; `>=` the minimum of a number or of a list's length; `=` the default.  An
  attr without a default must be given, unless it follows from the inputs
- `kernel`: a device type, the values of attrs that the kernel takes, `host` for the arguments that it keeps in host memory, and
  its priority and label, if it has them.  `DEFAULT` serves every device type that has no kernel of its own
- `numpy`: the family of the numpy kernel, and its file in `placesim/ops/kernels/`
"""


def ops_sections() -> dict[str, Callable[[], str]]:
    """Return functions that generate the text under each heading of the page.

    There is a heading for each first letter and each op. The key "" has the text before the first heading.
    """
    registry = load_registry()
    return {"": partial(_introduction, registry), **dict(_sections(registry))}


def _sections(registry: Registry) -> Iterator[tuple[str, Callable[[], str]]]:
    for letter, names in groupby(sorted(registry.op_names), lambda name: name[0]):
        yield "## Internal ops" if letter == "_" else f"## Letter {letter}", str
        for name in names:
            yield f"### {name}", partial(_entry, registry, name)


def _introduction(registry: Registry) -> str:
    names = registry.op_names
    return _INTRODUCTION.format(
        count=f"{len(names):,}",
        release=registry.release,
        placeable=f"{sum(map(registry.has_kernels, names)):,}",
        executed=f"{sum(map(OP_FAMILIES.__contains__, names)):,}",
    )


def _entry(registry: Registry, name: str) -> str:
    facts = facts_of(registry, name)
    lines = [format_signature(facts.op), *(f"{line.keyword} {line.text}" for line in fact_lines(facts))] if facts else []
    return "\n```text\n" + "".join(f"{line}\n" for line in lines) + "```\n"
