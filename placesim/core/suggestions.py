"""Suggestions of known words that are similar to an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Any

SIMILAR = 0.7
"""Minimum similarity of a suggestion, from 0 (any word) to 1 (the same word)."""
SIMILAR_AMONG_FEW = 0.6
MAX_CANDIDATES = 20_000
"""Number of known words that are compared; further ones are ignored."""
_MAX_CHARACTERS = 200


def did_you_mean(word: Any, words: Iterable[str], similar: float = SIMILAR) -> str:
    """Return `; did you mean 'x'?` for the known word that was most likely meant, else an empty text.

    It is a name that ends in `/word`, else the most similar word (ignoring case), else the only one that begins with `word`.
    """
    if not isinstance(word, str) or not 0 < len(word) < _MAX_CHARACTERS:
        return ""
    return _nearest(word, tuple(islice(words, MAX_CANDIDATES)), similar)


@lru_cache(maxsize=1024)
def _nearest(word: str, words: tuple[str, ...], similar: float) -> str:
    inner = next((known for known in words if known.endswith(f"/{word}")), None)
    if inner is not None:
        return _ask(inner)
    longest = (2 - similar) / similar  # largest factor between the lengths of two words of this similarity
    near = near_words(
        word, [known for known in words if len(known) <= longest * len(word) and len(word) <= longest * len(known)], 1, similar
    )
    if near:
        return _ask(near[0])
    longer = [known for known in words if known.lower().startswith(word.lower())] if len(word) > 1 else []
    return _ask(longer[0]) if len(longer) == 1 else ""


def _ask(word: str) -> str:
    return f"; did you mean '{word}'?"


def near_words(word: str, words: Iterable[str], most: int, similar: float) -> list[str]:
    """Return at most `most` known words with at least the given similarity (ignoring case), closest first."""
    import difflib

    lowered = {known.lower(): known for known in words}
    return [lowered[found] for found in difflib.get_close_matches(word.lower(), lowered, most, similar)]
