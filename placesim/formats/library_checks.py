"""TensorFlow's checks of a function library: no name of an op is used, no body is invalid, no function calls itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from placesim.formats.node_checks import NodeChecks
from placesim.formats.problems import FileProblems, part_position
from placesim.graph.graph import LibraryFunction
from placesim.ops.attributes import FunctionName
from placesim.ops.registry import Registry


def check_library(
    registry: Registry,
    functions: Mapping[str, LibraryFunction],
    problems: FileProblems,
    tree_of: Callable[[str], Any] = lambda name: None,
) -> None:
    """Report problems of all functions; `tree_of` returns the mapping from which a function was read, if any."""
    checks = NodeChecks(registry, functions, problems)
    for function in functions.values():
        tree = tree_of(function.name)
        if registry.op(function.name) is not None:
            message = f"Cannot add function '{function.name}' because an op with the same name already exists."
            problems.add(part_position(tree, "name"), message, "ValueError")
        bodies = tree.get("nodes") if isinstance(tree, dict) else ()
        given = [body for body in bodies if isinstance(body, dict)] if isinstance(bodies, list) else []
        at = {body["name"]: body for body in given if isinstance(body.get("name"), str)}
        for node in function.nodes:
            checks.check(node, at.get(node.name), f" in function '{function.name}'")
    circle = recursion(functions)
    if circle is not None:
        message = f"recursive functions: {' -> '.join(circle[:20])}; expected functions that do not call themselves"
        problems.add(part_position(tree_of(circle[0]), "name"), message, "InvalidArgumentError")


def recursion(functions: Mapping[str, LibraryFunction]) -> list[str] | None:
    """Return the names on a cycle of function calls, with the first repeated at the end; None if there is no cycle."""
    called = {name: list(dict.fromkeys(_called(function, functions))) for name, function in functions.items()}
    return next((circle for name, circle in calls_first(called) if circle is not None), None)


def calls_first(called: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, list[str] | None]]:
    """Yield each function's name after those of the functions that it calls.

    A name comes with a cycle through the function, whose first name is repeated at the end, or with None. It comes once for
    each such cycle, and then once with None.
    """
    state: dict[str, int] = {}
    for start in called:
        path, waiting = [start], [iter(called[start])]
        if start in state:
            continue
        state[start] = 1
        while path:
            following = next(waiting[-1], None)
            if following is None:
                state[path[-1]] = 2
                yield path.pop(), None
                waiting.pop()
            elif state.get(following) == 1:
                yield following, [*path[path.index(following) :], following]
            elif following not in state:
                state[following] = 1
                path.append(following)
                waiting.append(iter(called[following]))


def _called(function: LibraryFunction, functions: Mapping[str, LibraryFunction]) -> Iterator[str]:
    for node in function.nodes:
        if node.op in functions:
            yield node.op
        for value in node.attrs.values():
            for single in value if value.__class__ is tuple else (value,):
                if isinstance(single, FunctionName) and single.name in functions:
                    yield single.name
