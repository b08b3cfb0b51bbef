"""Generator of `kernels/op-families.txt`, which lists the ops of each family of kernels.

`python -m placesim.ops.compile_families` (a part of `make tables`) writes that file.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from placesim.ops import kernels
from placesim.ops.kernels.op_families import PATH


def op_families_text() -> str:
    """Return the file's text: lines with a family and some of its ops. A family is a module of `kernels/` with a `TABLE`."""
    prefix = f"{kernels.__name__}."
    lines = []
    for module in walk_packages(kernels.__path__, prefix):
        ops = list(getattr(import_module(module.name), "TABLE", ()))
        lines += _wrapped(f"{module.name.removeprefix(prefix)}:", ops)
    return "".join(f"{line}\n" for line in lines)


def _wrapped(head: str, ops: list[str]) -> list[str]:
    lines, line = [], head
    for op in ops:
        if len(line) + len(op) > 126:
            lines.append(line)
            line = head
        line += f" {op}"
    return [*lines, line] if line != head else lines


if __name__ == "__main__":
    PATH.write_text(op_families_text(), encoding="utf-8")
