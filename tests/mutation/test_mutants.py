"""Which mutants a line has, and that texts for people and types have none."""

from __future__ import annotations

import pytest

from tests.mutation.mutants import find_mutants

LINES = [
    ("a = b < c", {"a = b <= c"}),
    ("a = (é) is not (c)", {"a = (é) is (c)"}),
    ("a = b + c and d", {"a = b - c and d", "a = b + c or d"}),
    ("a = not b", {"a = bool(b)"}),
    ("a = 3", {"a = 4", "a = 2"}),
    ("a = True", {"a = False"}),
    ("a = max(b)", {"a = min(b)"}),
    ("a = sorted(b)", {"a = list(b)"}),
    ("a = sorted(b, key=c)", set()),
    ("a = 'é' if b else ''", {"a = '' if b else ''", "a = 'é' if (not b) else ''", "a = 'é' if b else 'mutant'"}),
    ("a += b", {"a -= b"}),
    ("def f(): return a", {"def f(): return None"}),
    ("def f(): a = b", {"def f(): pass"}),
    ("def f(): raise ValueError('no')", {"def f(): pass"}),
    ("while b: break", {"while (not b): break", "while b: continue"}),
    ('"""Text."""', set()),
    ("def f(a: Literal['x']) -> Literal['y']: ...", set()),
    ("a = cast('int', b)", set()),
    ("__slots__ = ('a',)", set()),
    ("if TYPE_CHECKING: a = 3", set()),
    ("a = f'{b < c}'", set()),
    ("A: TypeAlias = 'B | C'", set()),
    ("A = Literal['B', 'C']", set()),
    ("a = b.random() < c", set()),
    ("A = 99", {"A = 100", "A = 98"}),
    ("A = 100", {"A = 200", "A = 50"}),
    ("a = 100", {"a = 101", "a = 99"}),
    ("a = zip(b, c, strict=True)", set()),
    ("a = zip(b, c, strict=False)", {"a = zip(b, c, strict=True)"}),
]


@pytest.mark.parametrize(("source", "wanted"), LINES, ids=[source for source, _ in LINES])
def test_the_mutants_of_a_line(source: str, wanted: set[str]) -> None:
    assert {mutant.apply(source) for mutant in find_mutants("a.py", source) if mutant.compiles(source)} == wanted


def test_a_mutant_knows_its_statement() -> None:
    for mutant in find_mutants("a.py", "if (\n    a\n    < b\n):\n    c(1)\n"):
        assert (mutant.line, mutant.first, mutant.last) == (5, 5, 5)
    source = "a = [\n    b,\n    c < d,\n]\n"
    (mutant,) = find_mutants("a.py", source)
    assert (mutant.line, mutant.first, mutant.last) == (3, 1, 4)
    assert mutant.diff(source).splitlines()[3:] == ["     b,", "-    c < d,", "+    c <= d,", " ]"]


def test_a_mutant_knows_whether_it_runs_at_import() -> None:
    source = "A = 3\nclass B:\n    c = 4\n    def f(self, d=5):\n        e = 6\n"
    assert {mutant.old: mutant.is_early for mutant in find_mutants("a.py", source)} == {
        "3": True, "4": True, "5": True, "6": False, "e = 6": False,
    }  # fmt: skip
