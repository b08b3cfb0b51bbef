"""The rooms of the architecture: who may import whom, and where third-party packages are used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "placesim"
ROOMS = ["version", "core", "machine", "ops", "graph", "placement", "formats", "runtime"]
ROOMS += ["prediction", "inspection", "planning", "report", "studies", "api", "tf1", "cli"]
"""From the ground up: a room imports from those before it; `__init__` and `__main__` stand above all."""
THIRD_PARTY = {
    "yaml": (
        "formats/graph_file/parsing/yaml_tree",
        "formats/graph_file/writing/text_edits",
        "formats/graph_file/writing/raw_writer",
        "formats/graph_file/writing/short_values",
    ),
    "click": ("cli/",),
    "rich": ("cli/", "report/terminal/"),
    "numpy": (
        "core/dtypes",
        "core/tensor_fields",
        "core/checkpoints/",
        "ops/attributes",
        "ops/kernels/",
        "ops/process/",
        "graph/",
        "formats/",
        "placement/",
        "runtime/",
        "studies/calibration/",
        "planning/",
        "tf1/",
    ),
    "ml_dtypes": ("core/dtypes", "ops/kernels/", "runtime/", "tf1/types/dtypes"),
    "scipy": ("ops/kernels/", "planning/"),
    "re2": ("ops/kernels/string/matching",),
    "google_crc32c": ("core/checkpoints/crc32c",),
    "absl": ("tf1/app/flags",),
    "pytest": ("api/testing",),
    "resvg_py": ("report/pictures/png",),
    "PIL": ("ops/kernels/image/encoding",),
    "threadpoolctl": ("ops/process/intra_op_threads",),
    "ortools": ("planning/methods/exact",),
    "distributed": ("runtime/cluster/", "runtime/dask/"),
    "google": ("formats/tensorflow/", "formats/onnx/messages"),
    "onnx": ("formats/onnx/",),
}
"""Each third-party package and the modules, or rooms, that import it."""


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").as_posix()


def room_of(name: str) -> str:
    return name.partition("/")[0]


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
in_every_room = pytest.mark.parametrize("room", sorted({room_of(name) for name in MODULES}))


@cache
def imports_of(room: str) -> dict[str, tuple[str, ...]]:
    """What each module of a room imports, by the module's name."""
    return {name: tuple(imported(path)) for name, path in MODULES.items() if room_of(name) == room}


def imported(path: Path) -> Iterator[str]:
    """Every module that is imported at run time, anywhere in a file."""
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        else:
            waiting += ast.iter_child_nodes(node)


@in_every_room
def test_a_module_imports_only_what_its_room_may(room: str) -> None:
    allowed = {*ROOMS[: ROOMS.index(room) + 1]} if room in ROOMS else {*ROOMS}
    for module, names in imports_of(room).items():
        own = [name for name in names if name.partition(".")[0] == "placesim"]
        rooms = {name.split(".")[1] if "." in name else "placesim" for name in own}
        assert rooms <= allowed, f"{module} imports {sorted(rooms - allowed)}"


@in_every_room
def test_third_party_packages_stay_in_their_rooms(room: str) -> None:
    for module, names in imports_of(room).items():
        for package in {name.partition(".")[0] for name in names} & THIRD_PARTY.keys():
            assert any(module.startswith(place) for place in THIRD_PARTY[package]), f"{package} has no place in {module}"


def test_two_modules_above_are_asked_for_by_their_names() -> None:
    texts = {name: path.read_text() for name, path in MODULES.items()}
    named = {
        (name, node.value)
        for name, text in texts.items()
        if "import_module" in text and room_of(name) not in ("cli", "tf1")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("placesim.")
    }
    assert named == {
        ("formats/graph_file/entries/training_entries", "placesim.tf1.graph_file.training"),
        ("formats/graph_file/entries/control_flow_entries", "placesim.tf1.graph_file.control_flow"),
    }


def test_no_module_is_named_after_nothing() -> None:
    nothing = {"utils", "util", "helpers", "common", "base", "manager", "misc"}
    assert not [name for name in MODULES if nothing & set(name.split("/"))]
