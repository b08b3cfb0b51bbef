"""A smaller input that still ends in the same finding: fewer words, fewer nodes and keys, fewer bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzz.inputs import Input
from tests.fuzz.mutation import dump, parse

StillFound = Callable[[Input], bool]
_MAX_TRIES = 150


def shrink(given: Input, still_found: StillFound, seconds: float) -> Input:
    """The smallest that some tries and seconds find."""
    end = time.monotonic() + seconds
    tries = 0
    best = given
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _candidates(best):
            if tries == _MAX_TRIES or time.monotonic() > end:
                return best
            tries += 1
            if candidate.size < best.size and still_found(candidate):
                best, is_smaller = candidate, True
                break
    return best


def _candidates(given: Input) -> Iterator[Input]:
    for name, content in given.files.items():
        yield given._replace(files={other: text for other, text in given.files.items() if other != name})
        for smaller in _smaller_contents(content):
            yield given._replace(files={**given.files, name: smaller})
    for index in range(1, len(given.argv)):
        for count in (2, 1):
            yield given._replace(argv=given.argv[:index] + given.argv[index + count :])


def _smaller_contents(content: bytes) -> Iterator[bytes]:
    tree = parse(content)
    if isinstance(tree, dict | list):
        yield from map(dump, _smaller_trees(tree))
        return
    size = len(content) // 2
    while size >= max(1, len(content) // 64):
        for start in range(0, len(content), size):
            yield content[:start] + content[start + size :]
        size //= 2


def _smaller_trees(tree: Any) -> Iterator[Any]:
    """The tree without one part of it: large parts first."""
    keys: list[Any] = list(tree) if isinstance(tree, dict) else list(range(len(tree))) if isinstance(tree, list) else []
    if isinstance(tree, list) and len(tree) > 3:
        half = len(tree) // 2
        yield from (tree[:half], tree[half:])
    for key in keys:
        yield {k: v for k, v in tree.items() if k != key} if isinstance(tree, dict) else tree[:key] + tree[key + 1 :]
    for key in keys:
        for part in _smaller_trees(tree[key]):
            copy = tree.copy()
            copy[key] = part
            yield copy
