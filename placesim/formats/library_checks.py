"""TensorFlow's checks of a function library: no function may have an op's name or an invalid body, or call itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    """Report problems of all functions. `tree_of` returns the mapping that a function was read from, or None."""
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
    called = {name: dict.fromkeys(_called(function, functions)) for name, function in functions.items()}
    cycle = next((cycle for _, cycle in calls_first(called) if cycle is not None), None)
    if cycle is not None:
        report_recursion(cycle, problems, part_position(tree_of(cycle[0]), "name"))


def report_recursion(cycle: Sequence[str], problems: FileProblems, position: int) -> None:
    """Report functions that call each other in a cycle, whose first name is repeated at the end."""
    message = f"recursive functions: {' -> '.join(cycle[:20])}; expected functions that do not call themselves"
    problems.add(position, message, "InvalidArgumentError")


def calls_first(called: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, list[str] | None]]:
    """Yield a pair (name, None) for each function, after the pairs of the functions that it calls.

    Before that, yield a pair (name, cycle) for each cycle of calls: a list of names that begins and ends with `name`.
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
    """Yield the names of the functions that a function calls, by its nodes' ops or by their attrs."""
    for node in function.nodes:
        if node.op in functions:
            yield node.op
        for value in node.attrs.values():
            for single in value if value.__class__ is tuple else (value,):
                if isinstance(single, FunctionName) and single.name in functions:
                    yield single.name
