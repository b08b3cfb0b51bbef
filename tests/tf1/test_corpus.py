"""The scripts that agree with TensorFlow go on doing so."""

from __future__ import annotations

import pytest

from tests.tf1 import corpus
from tests.tf1.judge import judge


@pytest.mark.parametrize("name", corpus.agreeing())
def test_a_script_makes_what_tensorflow_made(name: str) -> None:
    assert judge(name) is None


def test_the_list_names_scripts_of_the_corpus() -> None:
    assert set(corpus.agreeing()) <= corpus.records().keys()
