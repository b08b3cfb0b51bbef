"""Device requests by node name, for plans that cannot be written into the scopes and nodes of a graph file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet

from placesim.formats.device_annotations import set_devices
from placesim.formats.graph_file.reader import read_graph_file
from placesim.formats.graph_file.writing.text_edits import EditableText
from placesim.graph.session_steps import GraphFile
from placesim.machine.device_names import DeviceName, format_spec, parse_runtime_name
from placesim.machine.inventory import DeviceSet
from placesim.placement.placer import Placement
from placesim.placement.session_placer import SessionPlacer
from placesim.planning.graphs.plan_annotations import devices_by_name, find_misplaced_nodes

_ROUNDS = 6
_MAX_DEPTH = 64
"""Maximum depth of a scope that is requested as a whole."""
_MAX_TRIALS = 64
"""Maximum number of placements that try to leave out rows."""
_MAX_PLACED = 500_000
"""Maximum number of nodes that these placements place together."""


def request(name: str, device_set: DeviceSet) -> DeviceName:
    """Return a request for a device. If the machine has only one task, the request has only the device's type and number."""
    full = parse_runtime_name(name)
    assert full is not None
    tasks = {device.name.partition("/device:")[0] for device in device_set.devices}
    return full._replace(job=None, replica=None, task=None) if len(tasks) == 1 else full._replace(replica=None)


def request_text(spec: DeviceName) -> str:
    """Return a request in its short form, such as `/gpu:0`."""
    if spec.job is None and spec.task is None and spec.type in ("CPU", "GPU"):
        return f"/{spec.type.lower()}:{spec.id}"
    return format_spec(spec)


def request_words(device_set: DeviceSet) -> dict[str, str]:
    """Map the full name of each device to the short form of a request for it."""
    return {device.name: request_text(request(device.name, device_set)) for device in device_set.devices}


def text_by_name(text: str, base: GraphFile, planned: Placement, *, soft: bool) -> str | None:
    """Return the text of a graph file with a `placement` key that yields `planned`; None if that is not possible.

    Rows are left out if the placement stays the same without them, for instance because TensorFlow colocates their nodes with
    nodes of other rows.  Raises UneditableText if the text cannot be changed, and GraphFileError if it is invalid.
    """
    where = {name: device for name, device in devices_by_name(planned).items() if name in base.graph.ids}
    words = request_words(planned.device_set)
    own = read_graph_file(text, base.graph.file, base.graph.registry)

    def misplaced(file: GraphFile) -> set[str] | None:
        """Return the nodes on another device than planned; None if placing fails."""
        found = SessionPlacer(planned.device_set, soft).place(file.graph)
        return None if found.error is not None else set(find_misplaced_nodes(found, where))

    def written(rows: Mapping[str, str]) -> tuple[str, set[str] | None]:
        """Return the text with rows, and the nodes that it misplaces."""
        if not rows:
            return text, misplaced(own)
        edited = EditableText(text).with_placement(rows)
        return edited, misplaced(read_graph_file(edited, base.graph.file, base.graph.registry))

    moved: set[str] = set()
    rows: dict[str, str] = {}
    for _ in range(_ROUNDS):
        edited, wrong = written(rows)
        new = (where.keys() if wrong is None else wrong) - moved
        if not new:
            break
        moved |= new
        rows = {name: words[device] for name, device in placement_rows(moved, where).items()}
    else:
        return None
    if wrong is None:
        return None
    trials = min(_MAX_TRIALS, _MAX_PLACED // max(1, len(own.graph)))
    fewer = needed_rows(rows, lambda left: misplaced(set_devices(own, list(left.items()))) == set(), trials)
    if len(fewer) < len(rows):
        shorter, wrong = written(fewer)
        edited = shorter if wrong == set() else edited
    return edited


def needed_rows(rows: Mapping[str, str], is_enough: Callable[[Mapping[str, str]], bool], trials: int) -> dict[str, str]:
    """Return rows without those that can be left out one after another: names first, then inner scopes, then outer scopes.

    `is_enough` tells whether rows suffice. It is called at most `trials` times.
    """
    order = sorted(rows, key=lambda name: (name.endswith("/"), -name.count("/")))
    left, waiting = dict(rows), [order[len(order) // 2 :], order[: len(order) // 2]]
    while waiting and trials:
        tried = waiting.pop()
        if not tried:
            continue
        trials -= 1
        fewer = {name: device for name, device in left.items() if name not in tried}
        if is_enough(fewer):
            left = fewer
        elif len(tried) > 1:
            waiting += [tried[len(tried) // 2 :], tried[: len(tried) // 2]]
    return left


def placement_rows(moved: Collection[str], where: Mapping[str, str]) -> dict[str, str]:
    """Return the fewest rows of `placement` that give each node of `moved` its device and move no other node.

    Rows are names and name scopes; the last matching row counts.
    """
    root = _Scope()
    for name in where:
        root.add(name)
    choice = _Choice(frozenset(moved), where)
    choice.cost("", root, None)
    rows: dict[str, str] = {}
    choice.write("", root, None, rows)
    return rows


class _Scope:
    """A name scope: the names of its nodes, and its inner scopes."""

    __slots__ = ("inner", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.inner: dict[str, _Scope] = {}

    def add(self, name: str) -> None:
        scope = self
        for part in name.split("/")[:-1][:_MAX_DEPTH]:
            scope = scope.inner.setdefault(part, _Scope())
        scope.names.append(name)


class _Choice:
    """Chooses the scopes that get a row, so that the number of rows is minimal."""

    def __init__(self, moved: AbstractSet[str], where: Mapping[str, str]) -> None:
        self._moved = moved
        self._where = where
        self._devices = sorted(set(where.values()))
        self._least: dict[tuple[str, str | None], tuple[int, str | None]] = {}

    def cost(self, path: str, scope: _Scope, given: str | None) -> int:
        """Return the least number of rows for a scope and its contents, if an enclosing scope requests the device `given`."""
        found = self._least.get((path, given))
        if found is None:
            options = [(self._inside(path, scope, given), given)]
            options += [(1 + self._inside(path, scope, own), own) for own in self._devices if path and own != given]
            found = self._least[path, given] = min(options, key=lambda option: option[0])
        return found[0]

    def _inside(self, path: str, scope: _Scope, given: str | None) -> int:
        inner = sum(self.cost(f"{path}{name}/", below, given) for name, below in scope.inner.items())
        return inner + sum(self._needs_row(name, given) for name in scope.names)

    def _needs_row(self, name: str, given: str | None) -> bool:
        return name in self._moved if given is None else self._where[name] != given

    def write(self, path: str, scope: _Scope, given: str | None, rows: dict[str, str]) -> None:
        """Add the chosen rows. The row of a scope comes before the rows of its contents."""
        own = self._least[path, given][1]
        if own is not None and own != given:
            rows[path] = own
        rows.update((name, self._where[name]) for name in scope.names if self._needs_row(name, own))
        for name, below in scope.inner.items():
            self.write(f"{path}{name}/", below, own, rows)
