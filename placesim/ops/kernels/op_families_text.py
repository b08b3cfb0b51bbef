"""Generator of `op_families.py`, the family of each op's kernel, from the families' tables.

`python -m placesim.ops.kernels.op_families_text` (a part of `make tables`) writes that file anew.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from placesim.ops import kernels

PATH = Path(kernels.__file__).with_name("op_families.py")
_HEAD = '''"""Family of each op's kernel, so that only the families that a graph needs are imported.

Written by `make tables` from the families' own tables; a test holds it to them.
"""

_LINES = """
'''
_FOOT = '''"""
OP_FAMILIES = {op: line.partition(":")[0] for line in _LINES.splitlines() for op in line.partition(":")[2].split()}
'''


def op_families_text() -> str:
    """The module's text: one line a family, with its ops.  An op in two families belongs to the later one."""
    owners = {op: family for family in kernels.FAMILIES for op in import_module(f"{kernels.__name__}.{family}").TABLE}
    lines = []
    for family in kernels.FAMILIES:
        ops = [op for op, owner in owners.items() if owner == family]
        lines += _wrapped(f"{family}:", ops)
    return _HEAD + "".join(f"{line}\n" for line in lines) + _FOOT


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
