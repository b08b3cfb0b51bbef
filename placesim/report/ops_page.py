"""The op table -> `ops.md`, the manual's page of ops.

`python -m placesim.report.ops_page` (a part of `make tables`) writes that file anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from placesim.inspection.op_facts import OpFacts, load_registry, matching_ops
from placesim.ops.notation import format_signature
from placesim.report.text.ops import fact_lines

PATH = Path(__file__).parent.parent / "manual" / "ops.md"
_HEAD = """# Ops: inputs, attrs, kernels by device, and where the numpy kernel is

The {count} ops of TensorFlow {release}, by name.  For {placeable} TensorFlow has a kernel, so that they can be placed; placesim
executes {executed} with numpy.  This page is written by `make tables`; `placesim ops` tells the same on the command line.

Under an op's name stand its inputs and its outputs, each with an element type or with the attr that holds its type (`N * T`: as
many tensors as the attr `N` says; `Ref(T)`: a reference to a variable).  Then, a line each:

- `flags`: `stateful` ops are neither merged nor folded; `uninitialized_input` ops take a variable that has no value yet
- `deprecated`: the version of GraphDef from which on no graph may contain the op, and what TensorFlow says to use
- `attr`: its type, or the allowed values in braces; `>=` the least value, of a list the least length; `=` the default.  An attr
  without a default must be given, unless it follows from the inputs
- `kernel`: a device type, the values of attrs that the kernel takes, `host` for the arguments that it keeps in host memory,
  and the priority and the label where it has them.  `DEFAULT` serves every device type that has no such kernel of its own
- `numpy`: the family of the numpy kernel, and its file in `placesim/ops/kernels/`
"""


def ops_page() -> str:
    """The page: a heading for each first letter, and under it one for each op."""
    registry = load_registry()
    listed = list(matching_ops(registry))
    head = _HEAD.format(
        count=f"{len(listed):,}",
        release=registry.release,
        placeable=f"{sum(bool(facts.kernels) for facts in listed):,}",
        executed=f"{sum(facts.family is not None for facts in listed):,}",
    )
    letters = groupby(listed, lambda facts: facts.op.name[0])
    return head + "".join(f"\n## {_heading(letter)}\n{_section(ops)}" for letter, ops in letters)


def _heading(letter: str) -> str:
    """Internal ops begin with an underscore."""
    return "Internal ops" if letter == "_" else f"Letter {letter}"


def _section(ops: Iterable[OpFacts]) -> str:
    return "".join(f"\n### {facts.op.name}\n\n```text\n{_entry(facts)}```\n" for facts in ops)


def _entry(facts: OpFacts) -> str:
    lines = [format_signature(facts.op), *(f"{line.keyword} {line.text}" for line in fact_lines(facts))]
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(ops_page(), encoding="utf-8")
