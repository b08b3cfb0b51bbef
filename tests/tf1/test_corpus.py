"""The scripts that agree with TensorFlow go on doing so."""

from __future__ import annotations

import pytest

from tests.tf1 import corpus
from tests.tf1.judge import judge
from tests.tf1.recording import record_in_fork

pytestmark = pytest.mark.corpus
_WRITTEN = ("coloc", "cond", "ctrl", "dev", "opt", "seed", "setter", "tower", "var", "while")
"""The topics whose graphs are also written as graph files."""


@pytest.mark.parametrize("name", corpus.agreeing())
def test_a_script_makes_what_tensorflow_made(name: str) -> None:
    assert judge(name) is None


@pytest.mark.parametrize("name", [name for name in corpus.agreeing() if name.startswith(_WRITTEN)])
def test_its_graph_file_makes_the_same_graph(name: str) -> None:
    got = record_in_fork(corpus.SCRIPTS / f"{name}.py", corpus.records()[name]["mode"], writes=True)
    assert got["unwritten"] == []


def test_the_list_names_scripts_of_the_corpus() -> None:
    assert set(corpus.agreeing()) <= corpus.records().keys()
