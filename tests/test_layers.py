"""The rooms of the architecture: who may import whom, and where third-party packages are used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "placesim"
ROOMS = {
    "errors": "escapes",
    "collector": "",
    "watching": "",
    "deadlines": "errors",
    "interrupts": "",
    "processes": "",
    "releases": "errors",
    "wire": "",
    "suggestions": "",
    "escapes": "",
    "marked": "escapes",
    "dtypes": "errors",
    "tensor_fields": "wire dtypes",
    "files": "errors",
    "byte_counts": "",
    "devices": "releases byte_counts errors suggestions",
    "memory": "byte_counts errors",
    "timelines": "collector watching errors",
    "traces": "",
    "ops": "releases dtypes errors",
    "graph": "releases ops devices dtypes errors",
    "formats": (
        "releases escapes files suggestions tensor_fields wire checkpoints collector watching graph ops devices dtypes errors"
    ),
    "placement": "releases collector watching graph devices ops dtypes errors",
    "checkpoints": "files wire dtypes errors",
    "runtime": (
        "releases byte_counts deadlines files suggestions tensor_fields wire collector checkpoints placement graph devices "
        "memory ops dtypes errors traces"
    ),
    "cluster": "suggestions processes devices errors placesim",
    "engine": "cluster runtime placement graph devices ops deadlines files traces errors",
    "planning": "suggestions processes cluster timelines errors",
    "prediction": "watching timelines traces runtime devices ops dtypes errors",
    "inspection": (
        "releases escapes files marked suggestions formats prediction runtime placement graph devices ops dtypes errors"
    ),
    "graph_plans": "planning prediction memory formats inspection runtime placement timelines graph devices dtypes ops errors",
    "report": (
        "releases traces escapes files marked planning graph_plans inspection prediction runtime placement graph devices ops "
        "dtypes errors"
    ),
    "walks": "suggestions simulation loading options report runtime errors",
    "timing": "collector walks simulation loading options prediction runtime graph errors",
    "calibration": "simulation loading options formats prediction runtime graph devices errors",
    "known": "loading options inspection prediction runtime graph errors",
    "subjects": "known sizing timing simulation loading options inspection prediction files errors",
    "conversions": "files runtime report placement formats graph errors",
    "inspections": (
        "subjects conversions simulation timing graph_plans loading options inspection prediction report formats files "
        "deadlines errors placesim"
    ),
    "testing": "inspections loading options report errors",
    "sizing": "known walks simulation loading options inspection runtime devices errors",
    "sweeping": (
        "files suggestions processes cluster timing simulation loading options report formats graph prediction devices errors"
    ),
    "planned": (
        "timing sizing simulation loading options report graph_plans planning prediction inspection formats placement graph "
        "devices errors"
    ),
    "planned_files": "conversions files simulation loading options report graph_plans formats placement graph errors",
    "forecasts": "timing planned planned_files sweeping cluster loading options planning graph_plans report errors",
    "manual": "",
    "examples": "suggestions errors",
    "options": "releases suggestions devices errors",
    "building": "releases suggestions formats graph ops errors",
    "loading": "ops building files suggestions options scripts inspection formats checkpoints graph devices errors",
    "scripts": "options formats errors",
    "machines": "options devices errors",
    "simulation": (
        "watching releases collector files suggestions deadlines interrupts loading options inspection report formats engine "
        "cluster runtime placement graph devices memory ops dtypes errors"
    ),
    "tf1": (
        "releases "
        "suggestions checkpoints wire escapes machines simulation options inspection report formats runtime graph ops devices "
        "dtypes errors"
    ),
    "cli": (
        "watching releases collector escapes files suggestions deadlines interrupts simulation subjects conversions "
        "calibration known "
        "sizing timing planned planned_files sweeping cluster engine loading scripts options manual examples inspection "
        "planning graph_plans prediction report marked formats devices errors placesim"
    ),
    "__init__": "building interrupts forecasts inspections machines simulation devices errors",
    "__main__": "cli interrupts",
}
"""Each room and what it may import beside itself; an arrow only points up this table."""
THIRD_PARTY = {
    "yaml": (
        "formats/graph_file/yaml_tree",
        "formats/graph_file/entry_texts",
        "formats/graph_file/writer",
        "formats/graph_file/short_values",
    ),
    "click": ("cli/",),
    "rich": ("cli/", "report/terminal"),
    "numpy": (
        "dtypes",
        "tensor_fields",
        "ops/attributes",
        "graph/",
        "formats/",
        "checkpoints/",
        "placement/",
        "runtime/",
        "calibration/",
        "planning/",
        "graph_plans/",
        "tf1/",
        "engine/",
    ),
    "ml_dtypes": ("dtypes", "runtime/", "tf1/dtypes"),
    "scipy": ("runtime/kernels/", "planning/", "graph_plans/"),
    "re2": ("runtime/kernels/string/matching",),
    "google_crc32c": ("checkpoints/crc32c",),
    "pytest": ("testing",),
    "resvg_py": ("report/pictures/png",),
    "PIL": ("runtime/kernels/image/encoding",),
    "threadpoolctl": ("runtime/intra_op",),
    "ortools": ("planning/methods/exact",),
    "distributed": ("cluster/", "engine/"),
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
    allowed = {room, *ROOMS[room].split()}
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
        ("formats/graph_file/training_entries", "placesim.tf1.file_training"),
        ("formats/graph_file/body_entries", "placesim.tf1.file_functions"),
    }


def test_no_module_is_named_after_nothing() -> None:
    nothing = {"utils", "util", "helpers", "common", "base", "manager", "misc"}
    assert not [name for name in MODULES if nothing & set(name.split("/"))]
