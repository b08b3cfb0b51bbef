"""Every recorded sequence of allocations and frees: offsets, sizes, regions, figures, chunks and log as TensorFlow's."""

from __future__ import annotations

import gzip
import sys
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.machine.memory import bfc
from tests.processes import run_process
from tests.runtime.accounting.compare import form_of, read_cases

DATA = Path(__file__).parent.parent.parent / "data" / "memory"
FILE = DATA / "bfc.jsonl.gz"
KINDS = {
    "abort": 2,
    "clear-stats": 16,
    "collect": 46,
    "few-sizes": 31,
    "fill": 53,
    "fraction": 41,
    "giant": 20,
    "limit": 20,
    "mega": 49,
    "multiple": 29,
    "no-retry": 10,
    "odd": 42,
    "retry": 2,
    "supply": 29,
    "timed": 30,
    "training": 62,
}
"""The kinds of sequences, and the number of each."""


@cache
def cases() -> dict[str, list[Any]]:
    """The sequences by kind."""
    found: dict[str, list[Any]] = {}
    for case in read_cases(FILE):
        found.setdefault(case["id"].partition("/")[0], []).append(case)
    return found


@pytest.mark.corpus
@pytest.mark.parametrize("kind", KINDS)
def test_sequences_of_a_kind_agree(kind: str) -> None:
    found = {case["id"]: list(bfc.differences(case)) for case in cases()[kind]}
    assert not {name: lines for name, lines in found.items() if lines}


@pytest.mark.slow
def test_every_kind_is_compared() -> None:
    assert {kind: len(found) for kind, found in cases().items()} == KINDS


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"memory_limit": 1 << 20}, "stats"),
        ({"name": "GPU_1_bfc"}, "log of step"),
        ({"fragmentation": 0.75}, "fragmentation"),
        ({"chunks": []}, "chunks"),
        ({"regions": []}, "regions"),
        ({"log": []}, "log of step"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_comparison_notices(change: dict[str, Any], said: str) -> None:
    case = next(case for case in cases()["limit"] if case["log"])
    assert any(line.startswith(said) for line in bfc.differences({**case, **change}))


def test_a_sequence_that_tensorflow_survives_is_no_fatal_one() -> None:
    case = cases()["limit"][0]
    assert list(bfc.differences({**case, "fatal": "made up"})) == ["expected to be refused, since TensorFlow died: made up"]


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ("sub steps memory_limit options results", "bfc"),
        ("id op family kind sole shared fed step_stats", "memory-ops"),
        ("id allocator feeds init fetches nodes graph runs step_stats", "memory-models"),
        ("id feeds fetches nodes graph graph_def runs", "memory-micro"),
        ("id limit_mb source options error log", "oom"),
        ("id graph expect", None),
    ],
)
def test_forms_are_told_apart_by_what_a_case_holds(keys: str, name: str | None) -> None:
    form = form_of(dict.fromkeys(keys.split()))
    assert (form and form.name) == name


@pytest.mark.slow
def test_the_command_says_what_agrees(tmp_path: Path) -> None:
    some = tmp_path / "some.jsonl"
    some.write_text("".join(f"{line.rstrip()}\n" for line in islice(recorded_lines(), 40)))
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "x"}\n')
    changed = tmp_path / "changed.jsonl"
    text = next(line for line in recorded_lines() if '"limit/21"' in line)
    changed.write_text(text.replace("BFCAllocator dump for", "A dump of"))

    def run(*files: Path) -> tuple[int, str]:
        code, output, complaint = run_process((sys.executable, "-m", "tests.runtime.accounting.compare", *map(str, files)))
        assert not complaint
        return code, output

    assert run(some) == (0, f"{some} (bfc): 40 / 40 agreed\n")
    code, out = run(changed, other)
    assert code == 1
    assert f"{changed} (bfc): 0 / 1 agreed" in out
    assert "log of step 14[1]: ['I', 'bfc_allocator.cc', 1049, 'BFCAllocator dump for GPU_0_bfc'], expected" in out
    assert f"{other}: no recording of memory" in out


def recorded_lines() -> list[str]:

    with gzip.open(FILE, "rt", encoding="utf-8") as lines:
        return list(lines)
