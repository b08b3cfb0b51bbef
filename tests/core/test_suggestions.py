"""Which known word may have been meant."""

from __future__ import annotations

from typing import Any

import pytest

from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean, near_words

WORDS = ("MatMul", "Conv2D", "Identity", "IdentityN", "params/w2")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("Matmul", "; did you mean 'MatMul'?"),
        ("identityn", "; did you mean 'IdentityN'?"),
        ("Cnv2", "; did you mean 'Conv2D'?"),
        ("w2", "; did you mean 'params/w2'?"),
        ("conv", "; did you mean 'Conv2D'?"),
        ("id", ""),  # begins two
        ("Relu", ""),
        ("", ""),
        ("M" * 1000, ""),
        (3, ""),
    ],
)
def test_a_near_word_is_named(word: Any, said: str) -> None:
    assert did_you_mean(word, WORDS) == said


def test_among_few_words_less_is_enough() -> None:
    assert did_you_mean("clsic", ("modern", "classic"), 0.9) == ""
    assert did_you_mean("clsic", ("modern", "classic"), SIMILAR_AMONG_FEW) == "; did you mean 'classic'?"


def test_the_closest_come_first() -> None:
    assert near_words("Identit", WORDS, 2, 0.5) == near_words("identit", WORDS, 2, 0.5) == ["Identity", "IdentityN"]
