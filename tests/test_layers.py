"""The rooms of the architecture: who may import whom, and where third-party packages are used."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parent.parent / "placesim"
PAGE = PACKAGE / "manual" / "architecture.md"
TOP_LEVEL = {"pyproject.toml", "placesim", "graphs", "tests", "Makefile", "README.md", "LICENSE"}
BUILT = {"build", "dist", "placesim.egg-info"}
THIRD_PARTY = {
    "yaml": (
        "formats/graph_file/parsing/yaml_tree",
        "formats/graph_file/writing/text_edits",
        "formats/graph_file/writing/yaml_line",
    ),
    "click": ("cli/",),
    "pandas": ("report/readings",),
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
    "psutil": ("core/operating_system",),
    "colorama": ("core/operating_system",),
    "google_crc32c": ("core/checkpoints/crc32c",),
    "absl": ("tf1/app/flags",),
    "pytest": ("api/testing",),
    "resvg_py": ("report/pictures/png",),
    "PIL": ("ops/kernels/image/encoding",),
    "threadpoolctl": ("ops/process/intra_op_threads",),
    "ortools": ("planning/methods/exact",),
    "distributed": ("runtime/cluster/", "runtime/dask/"),
    "tensorflow": ("studies/calibration/network_script",),  # a script, which placesim runs as a user's
    "google": ("formats/tensorflow/", "formats/onnx/messages"),
    "onnx": ("formats/onnx/",),
    "starlette": ("cli/studio/",),
    "uvicorn": ("cli/studio/",),
}
"""Each third-party package and the modules, or rooms, that import it."""


BY_NAME = {
    "cli/commands/__init__",
    "formats/onnx/families",
    "ops/kernels/__init__",
    "ops/compile_families",
    "runtime/saving/saved_values",
    "tf1/__init__",
    "tf1/exports/__init__",
    "tf1/gradients/registry",
    "tf1/importing/import_hook",
    "tf1/importing/namespaces",
    "tf1/ops/operators",
}
"""Modules that load others by their names, from a folder of families, or a table of families, commands or public names."""


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").as_posix()


def room_of(name: str) -> str:
    return name.partition("/")[0]


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
ROWS = re.findall(r"^\| `(\w+)/` \| ([\w, ]+) \|", PAGE.read_text(), re.MULTILINE)
MAY_IMPORT = {room: set(names.split(", ")) - {"nothing"} for room, names in ROWS}
"""By room, from the table in the manual; `__init__` and `__main__` stand above all."""
in_every_room = pytest.mark.parametrize("room", sorted({room_of(name) for name in MODULES}))


IMPORT = re.compile(r"^ *((?:from [\w.]+ )?import (?:\([^)]*\)|.*))$", re.MULTILINE)
FOR_TYPES = re.compile(r"^( *)if TYPE_CHECKING:\n(?:\1 +.*\n|\n)*", re.MULTILINE)


class Imports(NamedTuple):
    """The imports of a module: from other modules of the package the names, and whole packages of others."""

    own: dict[str, set[str]]
    foreign: set[str]


@cache
def imports_of(module: str) -> Imports:
    """All of them, inside functions and under TYPE_CHECKING too; of other packages those at run time.

    Only the statements are parsed: a whole module takes ten times as long.
    """
    found, for_types = Imports({}, set()), Imports({}, set())
    text = MODULES[module].read_text()
    typing = [block.span() for block in FOR_TYPES.finditer(text)]
    for statement in IMPORT.finditer(text):
        is_typing = any(start < statement.start() < end for start, end in typing)
        into = Imports(found.own, for_types.foreign) if is_typing else found
        with suppress(SyntaxError):  # a sentence that begins like one
            for node in ast.parse(statement[1]).body:
                match node:
                    case ast.Import(names=names):
                        for alias in names:
                            note(into, alias.name, "")
                    case ast.ImportFrom(module=str(source), names=names):
                        for alias in names:
                            note(into, source, alias.name)
    return found


def note(found: Imports, source: str, name: str) -> None:
    package, _, rest = source.partition(".")
    if package != "placesim":
        found.foreign.add(package)
        return
    path = rest.replace(".", "/")
    for module in (f"{path}/{name}", f"{path}/{name}/__init__", path, f"{path}/__init__", "__init__"):
        if module.strip("/") in MODULES:
            found.own.setdefault(module.strip("/"), set()).add(name)
            return


def modules_of(room: str) -> list[str]:
    return [name for name in MODULES if room_of(name) == room]


@pytest.mark.slow
@in_every_room
def test_a_module_imports_only_what_its_room_may(room: str) -> None:
    for module in modules_of(room):
        rooms = {room_of(name) for name in imports_of(module).own} - {room}
        allowed = MAY_IMPORT.get(room, set(MAY_IMPORT))
        assert rooms <= allowed, f"{module} imports {sorted(rooms - allowed)}"


def test_the_table_names_rooms_above() -> None:
    before: set[str] = set()
    for room, names in ROWS:
        assert MAY_IMPORT[room] <= before, f"{room} imports {names}"
        before.add(room)
    assert before == {room_of(name) for name in MODULES} - {"__init__", "__main__"}


@pytest.mark.slow
def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter({name: imports_of(name).own.keys() - {name} for name in MODULES}).prepare()
    except CycleError as error:
        ties = [(source, name) for name, source in pairwise(error.args[1])]
        reader, source = min(ties, key=lambda tie: len(imports_of(tie[0]).own[tie[1]]))
        taken = ", ".join(sorted(imports_of(reader).own[source]))
        pytest.fail(f"{len(ties)} modules import in a circle; its smallest tie: {reader} -> {source}: {taken}")


@in_every_room
def test_third_party_packages_stay_in_their_rooms(room: str) -> None:
    for module in modules_of(room):
        for package in imports_of(module).foreign & THIRD_PARTY.keys():
            assert any(module.startswith(place) for place in THIRD_PARTY[package]), f"{package} has no place in {module}"


def test_modules_are_loaded_by_name_only_from_tables() -> None:
    assert {name for name, path in MODULES.items() if "import_module" in path.read_text()} == BY_NAME


def test_no_module_is_named_after_nothing() -> None:
    nothing = {"utils", "util", "helpers", "common", "base", "manager", "misc"}
    assert not [name for name in MODULES if nothing & set(name.split("/"))]


def test_nothing_else_lies_beside_the_package() -> None:
    visible = {path.name for path in PACKAGE.parent.iterdir() if not path.name.startswith(".")}
    assert visible - BUILT == TOP_LEVEL
