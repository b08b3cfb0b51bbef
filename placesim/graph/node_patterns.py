"""Names and patterns of nodes, as commands and policies take them.

A pattern is a node's full name, an id of the graph file, a shell pattern over full names (`*` also crosses `/`, `?`, `[abc]`),
or a name scope that ends in `/`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import translate
from itertools import chain
from types import MappingProxyType

from placesim.graph.graph import Graph


def matcher(patterns: Sequence[str], handles: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Callable[[str], bool]:
    """Whether a name is matched by one of the patterns; case counts.  `handles` are a graph file's ids (`Graph.handles`)."""
    exact = frozenset(chain(patterns, *(handles.get(pattern, ()) for pattern in patterns)))
    scopes = tuple(pattern for pattern in patterns if pattern.endswith("/"))
    shell = [translate(pattern) for pattern in patterns if is_pattern(pattern)]
    match = re.compile("|".join(shell)).match if shell else None

    def matches(name: str) -> bool:
        return name in exact or name.startswith(scopes) or (match is not None and match(name) is not None)

    return matches


def find_matching_names(pattern: str, graph: Graph) -> Sequence[str]:
    """The names of a graph's nodes that a name, an id or a pattern stands for, in the graph's order."""
    if is_pattern(pattern) or pattern.endswith("/"):
        return list(filter(matcher((pattern,), graph.handles), graph.ids))
    return graph.handles.get(pattern, (pattern,) if pattern in graph.ids else ())


def is_pattern(text: str) -> bool:
    """Whether a text contains characters of a shell pattern, so that it may match several names."""
    return any(character in text for character in "*?[")
