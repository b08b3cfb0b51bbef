"""Which statements probes report."""

from __future__ import annotations

import ast

from tests.mutation.reach import HITS_MODULE, probe_statements

SOURCE = '''"""Text."""
from __future__ import annotations
def f(a):
    """Text."""
    if a:
        b = 1
    elif a is None:
        b = 2
    else:
        raise ValueError
    try:
        return [b][b]
    except IndexError:
        return 0
f(1)
'''


def test_probes_report_the_statements_that_run() -> None:
    module = ast.parse(SOURCE)
    lines = probe_statements(module, 100)
    added = module.body.pop(2)
    assert isinstance(added, ast.ImportFrom)
    assert added.module == HITS_MODULE
    hits: dict[int, int] = {}
    exec(compile(module, "a.py", "exec"), {"__hits__": hits})
    assert [line for number, line in enumerate(lines, 100) if number not in hits] == [7, 8, 10]
    assert sorted(lines) == [3, 5, 6, 7, 8, 10, 11, 12, 14, 15]
