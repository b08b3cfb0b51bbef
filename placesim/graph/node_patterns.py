"""Names and patterns of nodes in commands and policies.

A pattern is a node's full name, an id of the graph file, or a name scope that ends in `/`. It may also be a shell pattern over
full names (`*` also matches `/`; `?`, `[abc]`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from itertools import chain
from types import MappingProxyType

from placesim.core.suggestions import did_you_mean
from placesim.graph.graph import Graph

GRADIENTS = "gradients"
"""Default scope of `tf.gradients`."""


def matcher(patterns: Sequence[str], handles: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Callable[[str], bool]:
    """Return a function that says whether a name matches one of the patterns. Matching is case-sensitive.

    `handles` are the ids of a graph file (`Graph.handles`).
    """
    exact = frozenset(chain(patterns, *(handles.get(pattern, ()) for pattern in patterns)))
    scopes = tuple(pattern for pattern in patterns if pattern.endswith("/"))
    shell = [translate(pattern) for pattern in patterns if is_pattern(pattern)]
    match = re.compile("|".join(shell)).match if shell else None

    def matches(name: str) -> bool:
        return name in exact or name.startswith(scopes) or (match is not None and match(name) is not None)

    return matches


def find_matching_names(pattern: str, graph: Graph) -> Sequence[str]:
    """Return the names of the nodes that match a name, an id or a pattern, in the graph's order."""
    if is_pattern(pattern) or pattern.endswith("/"):
        return list(filter(matcher((pattern,), graph.handles), graph.ids))
    return graph.handles.get(pattern, (pattern,) if pattern in graph.ids else ())


def is_pattern(text: str) -> bool:
    """Whether a text has characters of a shell pattern, so that it may match several names."""
    return any(character in text for character in "*?[")


def enclosing_scopes(name: str) -> Iterator[str]:
    """Yield the scopes of a name: `a/` and `a/b/` for `a/b/c`."""
    end = name.find("/")
    while end >= 0:
        yield name[: end + 1]
        end = name.find("/", end + 1)


def is_gradient_name(name: str) -> bool:
    """Whether a node is in a scope that `tf.gradients` made."""
    return bool(gradient_scope(name))


def gradient_scope(name: str) -> str:
    """Return the outermost scope around a node that `tf.gradients` made, with its slash; an empty text if there is none."""
    found = (scope for scope in enclosing_scopes(name) if _GRADIENT_SCOPE.search(scope))
    return next(found, "")


_GRADIENT_SCOPE = re.compile(rf"(^|/){GRADIENTS}(_[^/]*)?/$")


def did_you_mean_node(pattern: str, names: Iterable[str]) -> str:
    """Return a suggestion like `did_you_mean`; scopes of the names are known words too."""
    names = tuple(names)
    return did_you_mean(pattern, dict.fromkeys(chain(chain.from_iterable(map(enclosing_scopes, names)), names)))
