"""The scripts that agree with TensorFlow go on doing so."""

from __future__ import annotations

from functools import cache

import pytest

from tests.tf1 import corpus
from tests.tf1.comparing import first_difference
from tests.tf1.recording import record_in_fork

pytestmark = pytest.mark.corpus
_WRITTEN = ("coloc", "cond", "ctrl", "dev", "opt", "seed", "setter", "tower", "var", "while")
"""The topics whose graphs are also written as graph files."""


@cache
def held(name: str) -> tuple[str | None, list[str] | None]:
    """The first difference of a script, which runs once for both tests, and its graphs that no graph file says."""
    record = corpus.records()[name]
    got = record_in_fork(corpus.SCRIPTS / f"{name}.py", record["mode"], writes=name.startswith(_WRITTEN))
    return first_difference(record, got), got.get("unwritten")


@pytest.mark.parametrize("name", corpus.agreeing())
def test_a_script_makes_what_tensorflow_made(name: str) -> None:
    assert held(name)[0] is None


@pytest.mark.parametrize("name", [name for name in corpus.agreeing() if name.startswith(_WRITTEN)])
def test_its_graph_file_makes_the_same_graph(name: str) -> None:
    assert held(name)[1] == []


def test_the_list_names_scripts_of_the_corpus() -> None:
    assert set(corpus.agreeing()) <= corpus.records().keys()
