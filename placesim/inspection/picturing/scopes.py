"""Tree of name scopes of a picture's nodes, with totals by device.

`a/b/c` belongs to scope `a/b`; a node named like a scope (a variable `v` beside `v/read`) belongs to that scope.  A scope whose
only child is a scope is merged with it, as `a/b`.  In a large scope, children that differ only in numbers are folded into a
series (`layer_*`), and long series into ranges, so that no scope has more than FOLD_LIMIT children.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from placesim.core.grouped import grouped
from placesim.inspection.byte_amounts import Amount, merge_amounts, sum_amounts
from placesim.inspection.picturing.likeness import Likeness
from placesim.inspection.picturing.picture import PictureNode

FOLD_LIMIT = 60
"""Maximum children of a scope, to fit on a screen."""
SERIES_FROM = 36
"""Maximum number of children without folding. In larger scopes, series of MIN_SERIES and more children are folded."""
MIN_SERIES = 4
FIRST_BOXES = 24
"""Maximum number of boxes in the first picture of the page."""
_NUMBER = re.compile(r"\d+")
_COUNTER = re.compile(r"_\d+$")


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """A name scope, or some children of a name scope that were folded into one.

    `name` is its path, empty at the root. `label` is its name below its parent. `children` are scopes and ids of nodes, in the
    order of their first node in the graph. `first` is the id of the first node inside.

    `by_device` maps device indices, in order, to the numbers of nodes and the bytes of their outputs. `copies` is the number of
    equal scopes that a folded scope represents, and 0 for any other.

    `is_body` marks a function's body, which a node of the enclosing scope calls. Totals of enclosing scopes do not include the
    nodes of a body.
    """

    name: str
    label: str
    children: tuple[Scope | int, ...]
    first: int
    by_device: dict[int, Amount]
    is_folded: bool = False
    copies: int = 0
    is_body: bool = False

    @property
    def total(self) -> Amount:
        """Return the total of everything inside, over all devices."""
        return sum_amounts(self.by_device.values())

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Return the child scopes."""
        return tuple(child for child in self.children if isinstance(child, Scope))

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Scope]]:
        """Yield this scope and its descendants with their depths, parents first."""
        waiting = [(depth, self)]
        while waiting:
            level, scope = waiting.pop()
            yield level, scope
            waiting += [(level + 1, child) for child in reversed(scope.scopes)]

    def node_ids(self) -> Iterator[int]:
        """Yield the id of every node inside, in the order of the tree."""
        for _, scope in self.walk():
            yield from (child for child in scope.children if isinstance(child, int))


def scope_tree(nodes: Sequence[PictureNode], fold_limit: int | None = FOLD_LIMIT, folds_alike: bool = False) -> Scope:
    """Return the tree of all nodes; without `fold_limit` nothing is folded or merged.

    With `folds_alike`, siblings of equal shape are folded even if their names differ.
    """
    root = _ScopeDraft("")
    drafts = {"": root}
    scopes = _scope_names(nodes)
    for node_id, node in enumerate(nodes):
        name = node.name if node.name in scopes else node.name.rpartition("/")[0]
        _draft_of(name, drafts).children.append(node_id)
    return _Grower(nodes, fold_limit, folds_alike).grow(root)


class _ScopeDraft:
    """A scope while nodes are added to it."""

    __slots__ = ("children", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: list[_ScopeDraft | int] = []


def _scope_names(nodes: Sequence[PictureNode]) -> set[str]:
    """Return the names of all scopes, including those that only have other scopes."""
    found: set[str] = set()
    for node in nodes:
        name = node.name.rpartition("/")[0]
        while name and name not in found:
            found.add(name)
            name = name.rpartition("/")[0]
    return found


def _draft_of(name: str, drafts: dict[str, _ScopeDraft]) -> _ScopeDraft:
    """Return the draft of a scope, creating it and its ancestors if needed."""
    missing = []
    while name not in drafts:
        missing.append(name)
        name = name.rpartition("/")[0]
    draft = drafts[name]
    for new in reversed(missing):
        child = drafts[new] = _ScopeDraft(new)
        draft.children.append(child)
        draft = child
    return draft


class _Grower:
    """Converter of drafts to scopes, the innermost first.

    It does not recurse, since scopes may be nested deeper than Python's stack.
    """

    def __init__(self, nodes: Sequence[PictureNode], fold_limit: int | None, folds_alike: bool) -> None:
        self._nodes = nodes
        self._limit = fold_limit
        self._bodies = {node.body for node in nodes if node.body}
        self._likeness = Likeness(nodes, lambda child: _stem(self._label(child))) if folds_alike else None

    def grow(self, root: _ScopeDraft) -> Scope:
        order, waiting = [], [root]
        while waiting:
            draft = waiting.pop()
            order.append(draft)
            waiting += [child for child in draft.children if isinstance(child, _ScopeDraft)]
        made: dict[_ScopeDraft, Scope] = {}
        for draft in reversed(order):
            made[draft] = self._scope(
                draft, [made[child] if isinstance(child, _ScopeDraft) else child for child in draft.children]
            )
        return made[root]

    def _scope(self, draft: _ScopeDraft, children: list[Scope | int]) -> Scope:
        only = children[0] if len(children) == 1 else None
        is_body = draft.name in self._bodies
        label = draft.name.rpartition("/")[2] + ("()" if is_body else "")
        is_wrapped = self._limit is not None and draft.name and not is_body
        if is_wrapped and isinstance(only, Scope) and not only.is_folded and not only.is_body:
            return Scope(only.name, f"{label}/{only.label}", only.children, only.first, only.by_device)
        shown = self._folded(draft.name, self._alike(draft.name, children))
        return self._made(draft.name, label, shown, is_body=is_body)

    def _made(
        self,
        name: str,
        label: str,
        children: Sequence[Scope | int],
        is_folded: bool = False,
        copies: int = 0,
        *,
        is_body: bool = False,
    ) -> Scope:
        # a scope folded from bodies only is itself a body, so it does not count for the enclosing scope
        is_body = is_body or (is_folded and all(isinstance(child, Scope) and child.is_body for child in children))
        first = min((self._first(child) for child in children), default=0)
        counted = (child for child in children if is_body or not (isinstance(child, Scope) and child.is_body))
        found = merge_amounts(map(self._amounts, counted))
        return Scope(name, label, tuple(children), first, dict(sorted(found.items())), is_folded, copies, is_body)

    def _first(self, child: Scope | int) -> int:
        return child if isinstance(child, int) else child.first

    def _amounts(self, child: Scope | int) -> Mapping[int, Amount]:
        if isinstance(child, Scope):
            return child.by_device
        return {self._nodes[child].device: Amount().plus(self._nodes[child].bytes)}

    # --- folding what is too much

    def _alike(self, name: str, children: list[Scope | int]) -> list[Scope | int]:
        """Return the children; children of equal shape are folded into one scope."""
        if self._likeness is None:
            return children
        groups = self._likeness.groups(children, lambda child: child.node_ids() if isinstance(child, Scope) else (child,))
        return [self._copies(name, group) if len(group) > 1 else group[0] for group in groups]

    def _copies(self, name: str, members: list[Scope | int]) -> Scope:
        stems = {_stem(self._label(member)) for member in members}
        label = f"{stems.pop()}_*" if len(stems) == 1 else f"{self._label(members[0])} … {self._label(members[-1])}"
        return self._made(_under(name, label), label, self._ranges(name, members), True, len(members))

    def _folded(self, name: str, children: list[Scope | int]) -> Sequence[Scope | int]:
        if self._limit is None or len(children) <= min(SERIES_FROM, self._limit):
            return children
        for least in (MIN_SERIES, 2):
            found = self._with_series(name, children, least)
            if len(found) == 1 and len(children) <= self._limit:
                return children
            if len(found) <= self._limit:
                return found
        return self._ranges(name, found)

    def _with_series(self, name: str, children: list[Scope | int], least: int) -> Sequence[Scope | int]:
        """Return the children; every series of at least `least` children is folded into one scope at its first position."""
        series = grouped(((isinstance(child, Scope), _stem(self._label(child))), child) for child in children)
        found: list[Scope | int] = []
        for (_, stem), members in series.items():
            found += [self._series(name, stem, members)] if len(members) >= least else members
        return sorted(found, key=self._first)

    def _label(self, child: Scope | int) -> str:
        return child.label if isinstance(child, Scope) else self._nodes[child].name.rpartition("/")[2]

    def _series(self, name: str, stem: str, members: list[Scope | int]) -> Scope:
        is_counted = any(_COUNTER.search(self._label(member)) for member in members)
        label = f"{stem}_*" if is_counted else stem
        return self._made(_under(name, label), label, self._ranges(name, members), True)

    def _ranges(self, name: str, members: Sequence[Scope | int]) -> Sequence[Scope | int]:
        """Return the members. If there are more than the limit, fold them into ranges of equal length, which may be nested."""
        assert self._limit is not None
        levels, reach = 1, self._limit
        while reach < len(members):
            levels, reach = levels + 1, reach * self._limit
        if levels == 1:
            return members
        branches = next(branches for branches in range(2, len(members) + 1) if branches**levels >= len(members))
        length = -(-len(members) // branches)
        parts = [members[start : start + length] for start in range(0, len(members), length)]
        return [self._range(name, part) if len(part) > 1 else part[0] for part in parts]

    def _range(self, name: str, part: Sequence[Scope | int]) -> Scope:
        label = f"{self._label(part[0])} … {self._label(part[-1])}"
        return self._made(_under(name, label), label, self._ranges(name, part), True)


def _stem(label: str) -> str:
    """Return the common part of names that differ in numbers: `Mul` for `Mul_3`, and `conv*` for `conv1` and `conv2`."""
    return _NUMBER.sub("*", _COUNTER.sub("", label))


def _under(scope: str, label: str) -> str:
    return f"{scope}/{label}" if scope else label


# --- which scopes to open -------------------------------------------------------------------------------------------


def unfold(root: Scope, limit: int, nodes_count: bool = True) -> set[Scope]:
    """Return the scopes to open so that at most `limit` rows or boxes are visible: as many whole levels as fit.

    `nodes_count` says whether nodes are visible too. The root and single children are always open.
    """
    opened, level = {root}, list(root.scopes)
    seen = len(root.children) if nodes_count else len(root.scopes)
    while level:
        more = sum(len(scope.children) if nodes_count else len(scope.scopes) for scope in level)
        if seen + more > limit and seen > 1:
            break
        opened |= set(level)
        seen, level = seen + more, [child for scope in level for child in scope.scopes]
    return opened


def find_open_scopes(root: Scope, depth: int) -> set[Scope]:
    """Return the scopes to open so that scopes at level `depth` are visible; level 1 has the children of the root."""
    return {scope for level, scope in root.walk() if level < depth}


def choose_open_scopes(nodes: Sequence[PictureNode], limit: int, depth: int | None) -> tuple[Scope, set[Scope]]:
    """Return the tree and the scopes to open: down to level `depth`, or with None, as many as `limit` boxes allow."""
    tree = scope_tree(nodes, FOLD_LIMIT if depth is None else None)
    return tree, unfold(tree, limit) if depth is None else find_open_scopes(tree, depth)


def page_tree(nodes: Sequence[PictureNode]) -> tuple[Scope, set[Scope]]:
    """Return the page's tree and its initially open scopes: as many outer levels as fit."""
    tree = scope_tree(nodes, folds_alike=True)
    return tree, unfold(tree, FIRST_BOXES)


def walk(root: Scope, opened: Set[Scope]) -> Iterator[tuple[int, Scope | int | None]]:
    """Yield the visible items in order, each with its level from 1 on; None marks the end of an opened scope.

    It does not recurse, since scopes may be nested deeper than Python's stack.
    """
    waiting: list[tuple[int, Scope | int | None]] = [(1, child) for child in reversed(root.children)]
    while waiting:
        level, item = waiting.pop()
        yield level, item
        if isinstance(item, Scope) and item in opened:
            waiting.append((level, None))
            waiting += [(level + 1, child) for child in reversed(item.children)]
