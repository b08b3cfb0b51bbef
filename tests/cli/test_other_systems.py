"""Every command without the names that Windows or macOS lacks, and with Windows' line ends, pipes and rules for open files."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from placesim.cli.commands import COMMANDS
from tests.other_systems import SYSTEMS, Call
from tests.processes import ROOT, run_process
from tests.system_names import MODULES, WHOLE_MODULES, missing_names

PACKAGE = ROOT / "placesim"
LACKING = set().union(*WHOLE_MODULES.values())
NAMES = {f"{module}.{name}" for module in MODULES for system in WHOLE_MODULES for name in missing_names(module, system)}
NAMES |= {"os.name", "platform.system", "sys.platform"}  # only one module asks which system it is
OPTIONS = {"creationflags", "dir_fd", "pass_fds", "preexec_fn", "start_new_session"}
HINT = re.compile(
    rf"\b(?:{'|'.join(MODULES)}|platform)\.[a-zA-Z]|(?:import|from) (?:{'|'.join(LACKING)})\b|\b(?:{'|'.join(OPTIONS)})="
    r"|\bopen\(|\.(?:read|write)_text\(|['\"]/(?:proc|sys)/"
)
"""A module without these words need not be parsed."""

GRAPHS = ("device-count", "logging", "missing-gpu", "model-parallel", "recomputation", "towers", "while")
TOWERS = ("towers.yaml", "--inventory", "machine.yaml")
FILES = {
    "machine.yaml": "devices:\n  cpu: 1\n  gpu: {count: 4, model: Tesla V100-SXM2-16GB}\n",
    "policy.yaml": "description: é\nrules:\n  - no-soft-fallback\n  - max-transfers: 0\n",
    "placesim.toml": "[memory]\nsoft-placement = true\n",
    "é→.yaml": "nodes:\n- name: a\n  op: Const\n  value: é→\n- {op: Identity, name: b, inputs: [a]}\nrun:\n- fetch: [b]\n",
    "C:\\graphs\\bad.yaml": 'nodes:\n- {op: NoOp}\n- {op: NoOp, device: "/gpu:7"}\n',
    "train.yaml": "nodes:\n- {variable: w, shape: [2], initializer: zeros}\n- {initializer: init}\n"
    "run: [{fetch: [init], repeat: 3}]\n",
    "frozen.pbtxt": (ROOT / "tests/data/tensorflow-files/frozen.pbtxt").read_text("utf-8"),
    "script.py": "import tensorflow.compat.v1 as tf\ntf.disable_eager_execution()\na = tf.constant(1, name='a')\n",
}
CALLS = [
    Call(["run", *TOWERS, "--memory-limit", "1GiB", "--timeout", "60"]),
    Call(["run", "-", "--format", "json"], (ROOT / "graphs/while.yaml").read_text("utf-8")),
    Call(["run", "é→.yaml"]),
    Call(["run", "é→.yaml", "--format", "json"]),
    Call(["run", "towers.yaml", "nosuch.yaml"]),
    Call(["run", "train.yaml", "--checkpoint", "train", "--checkpoint-every", "1", "--checkpoint-keep", "1"]),
    Call(["run", "train.yaml", "--checkpoint", "train", "--checkpoint-every", "1", "--restart"]),
    Call(["place", "script.py"]),
    Call(["place", "frozen.pbtxt"]),
    Call(["place", "towers.yaml", "missing-gpu.yaml"]),
    Call(["simulate", "recomputation.yaml", "--output", "step.html"]),
    Call(["memory", "recomputation.yaml"]),
    Call(["parallelize", "model-parallel.yaml", "--replicas", "2", "--split", "x", "--split", "y", "--output", "towers.pb"]),
    Call(["plan", "device-count.yaml", "--gpu", "2", "--free-all", "--soft-placement", "--output", "plan.yaml"]),
    Call(["plan", "recomputation.yaml", "--strategies", "--evaluations", "5", "--jobs", "1"]),
    Call(["diff", "device-count.yaml", "plan.yaml"]),
    Call(["explain", "missing-gpu.yaml", "MatMul", "--soft-placement"]),
    Call(["check", *TOWERS, "--policy", "policy.yaml", "--format", "sarif"]),
    Call(["check", "C:\\graphs\\bad.yaml", "--format", "sarif"]),
    Call(["devices", "--inventory", "machine.yaml"]),
    Call(["studio", "é→.yaml", "--gpu", "-1"]),
    Call(["convert", "towers.yaml", "towers.pb"]),
    Call(["sweep", "towers.pb", "--fetch", "AddN", "--set", "gpu=4..5", "--jobs", "2", "--output", "rows.csv"]),
    Call(["sweep", "towers.pb", "--fetch", "AddN", "--set", "gpu=4..6", "--jobs", "1", "--output", "rows.csv"]),
    Call(["show", "towers.pb", "--gpu", "4"]),
    Call(["show", *TOWERS, "--output", "towers.svg"]),
    Call(["new", "queue"]),
    Call(["new", "queue", "--force"]),
    Call(["manual", "glossary"]),
    Call(["help", "run"]),
    Call(["completion", "zsh"]),
    Call(["ops", "MatMul"]),
]


@pytest.mark.slow
def test_names_that_a_system_lacks_stay_in_one_module() -> None:
    found = {path.relative_to(PACKAGE).as_posix(): uses(path) for path in sorted(PACKAGE.rglob("*.py"))}
    own = found.pop("core/operating_system.py")
    assert {"os.sysconf", "import fcntl", "sys.platform", "'/proc/cpuinfo'"} <= own
    assert {path: names for path, names in found.items() if names} == {}


def uses(path: Path) -> set[str]:
    """The uses of such names in a module, and the texts that it reads or writes in an encoding of the system."""
    found: set[str] = set()
    text = path.read_text("utf-8")
    for node in ast.walk(ast.parse(text)) if HINT.search(text) else ():
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if f"{module}.{name}" in NAMES:
                found.add(f"{module}.{name}")
            case ast.Import(names=aliases):
                found |= {f"import {alias.name}" for alias in aliases if alias.name in LACKING}
            case ast.ImportFrom(module=str(module), names=aliases):
                found |= {
                    f"from {module} import {it.name}" for it in aliases if f"{module}.{it.name}" in NAMES or module in LACKING
                }
            case ast.keyword(arg=str(option)) if option in OPTIONS:
                found.add(f"{option}=")
            case ast.Constant(value=str(words)) if words.startswith(("/proc/", "/sys/")):
                found.add(repr(words))
            case ast.Call(func=ast.Attribute(attr="read_text" | "write_text" as name), args=arguments, keywords=options):
                if not arguments[name == "write_text" :] and "encoding" not in [option.arg for option in options]:
                    found.add(ast.unparse(node))
            case ast.Call(func=ast.Name(id="open"), args=[_, ast.Constant(value=str(mode))], keywords=options):
                if "b" not in mode and "encoding" not in [option.arg for option in options]:
                    found.add(ast.unparse(node))
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("systems")
    texts = FILES | {f"{name}.yaml": (ROOT / f"graphs/{name}.yaml").read_text("utf-8") for name in GRAPHS}
    for system in SYSTEMS:
        (folder / system).mkdir()
        for name, text in texts.items():
            (folder / system / name).write_text(text, "utf-8", newline="\r\n" if system == "win32" else "\n")
    command = (sys.executable, "-m", "tests.other_systems")
    return json.loads(run_process(command, folder=folder, given=json.dumps(CALLS).encode(), check=True).output)


@pytest.mark.slow(10)
@pytest.mark.linux("names that it takes away")
def test_every_command_gives_the_same_on_each_system(found: Any) -> None:
    assert {call.arguments[0] for call in CALLS} == COMMANDS.keys() - {"calibrate"}  # it measures for seconds
    for number, call in enumerate(CALLS):
        outcome = found["linux"]["outcomes"][number]
        assert outcome[0] < 70
        for system in SYSTEMS[1:]:
            assert (system, call, found[system]["outcomes"][number]) == (system, call, outcome)
        if call.arguments[1] == "C:\\graphs\\bad.yaml":
            assert '"uri":"file:///C:/graphs/bad.yaml"},"region":{"startLine":3,' in outcome[1]
    for system in SYSTEMS[1:]:
        assert {name: text.replace("\r\n", "\n") for name, text in found[system]["files"].items()} == found["linux"]["files"]
    files = [found[system]["files"]["plan.yaml"] for system in SYSTEMS]
    assert files[-1] == files[0].replace("\n", "\r\n")  # in the line ends of its graph
