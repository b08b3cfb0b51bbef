"""The GitHub action and the pre-commit hook: their files name inputs, options and graphs that exist; the action's step runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from placesim.cli.group import placesim as group
from placesim.cli.manual_pages import read_page
from tests.cli.shell import ROOT
from tests.documents import blocks
from tests.processes import CommandResult, run_process

ACTION = ROOT / ".github" / "actions" / "check"
ACTION_FILE = yaml.safe_load((ACTION / "action.yml").read_text())
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
SHOWN: list[dict[str, Any]] = [
    yaml.safe_load(block.text) for block in blocks(read_page("policies")) if block.language == "yml" and "OWNER" in block.text
]
GRAPH = "nodes:\n  - {op: Const, name: a, value: 1.0, device: '/gpu:3'}\n"
BROKEN = "nodes:\n  - {op: ' ##[error]::error::', name: a}\n"


def options_of_check() -> set[str]:
    command = group.get_command(None, "check")  # type: ignore[arg-type]
    assert command is not None
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


def test_the_files_name_options_that_exist() -> None:
    texts = [(ACTION / name).read_text() for name in ("action.yml", "check.py")]
    named = set(re.findall(r"(?<![\w-])--[a-z-]+", re.sub(r".* -m pip .*", "", "".join(texts))))
    workflow, hooks = SHOWN
    given = workflow["jobs"]["placements"]["steps"][1]["with"]
    hook = hooks["repos"][0]["hooks"][0]
    named |= {word for word in (*given["options"].split(), *hook["args"]) if word.startswith("--")}
    assert {"--format", "--output", "--policy"} <= named <= options_of_check()
    assert set(given) == set(ACTION_FILE["inputs"])
    assert workflow["jobs"]["placements"]["steps"][1]["uses"].partition("/placesim/")[2] == ".github/actions/check@main"
    assert hook["id"] == HOOK["id"]
    assert HOOK["entry"] == "placesim check"


def test_the_hooks_files_are_graphs() -> None:
    examples = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "graphs").iterdir())]
    assert all(re.search(HOOK["files"], name) for name in examples)
    assert not [name for name in (".pre-commit-config.yaml", "graphs.yaml", "graphs/run.py") if re.search(HOOK["files"], name)]


def run_step(directory: Path, graphs: str, policy: str = "", options: str = "") -> CommandResult:
    """The action's last step, as its file calls it, with this Python in the place of the one that it installs."""
    step = ACTION_FILE["runs"]["steps"][-1]
    assert step["env"] == {name.upper(): f"${{{{ inputs.{name} }}}}" for name in ("graphs", "policy", "options")}
    line = step["run"].replace("$RUNNER_TEMP/placesim/bin/python", sys.executable)
    environment = {"GITHUB_ACTION_PATH": str(ACTION), "GRAPHS": graphs, "POLICY": policy, "OPTIONS": options}
    return run_process(("bash", "-e", "-c", line), folder=directory, environment=environment)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "models" / "a b").mkdir(parents=True)
    (tmp_path / "models" / "g.yaml").write_text(GRAPH)
    (tmp_path / "models" / "a b" / "g.yaml").write_text(GRAPH)
    (tmp_path / "-b.yaml").write_text(BROKEN)
    (tmp_path / "guard.yaml").write_text("rules: [no-soft-fallback]\n")
    return tmp_path


@pytest.mark.slow
@pytest.mark.posix("bash")
def test_the_action_annotates_what_its_globs_match(repository: Path) -> None:
    ended = run_step(repository, "models/**\n\n*b.yaml\n", "guard.yaml", "--gpu '1' --soft-placement")
    assert ended.code == 2
    start, *_, end = [line for line in ended.output.splitlines() if re.search(r"[0-9a-f]{32}", line)]
    assert end == f"::{start.removeprefix('::stop-commands::')}::"
    told = ended.output.partition(f"{end}\n")[2].splitlines()
    assert [line.partition(",col")[0] for line in told] == [
        "::error file=models/a b/g.yaml,line=2",
        "::error file=models/g.yaml,line=2",
        "::error file=./-b.yaml,line=2",
    ]


@pytest.mark.posix("bash")
def test_the_action_tells_that_a_glob_matches_nothing(repository: Path) -> None:
    ended = run_step(repository, "models/*.yaml\nnone/*.yaml")
    assert ended == (1, "", "no graph matches 'none/*.yaml'\n")


@pytest.mark.slow
@pytest.mark.posix("bash")
def test_the_action_passes_where_nothing_is_found_and_the_repository_runs_nothing(repository: Path) -> None:
    """A pull request may bring modules that are named as those of Python, of pip and of placesim."""
    (repository / "placesim").mkdir()
    for name in ("placesim/__init__.py", "placesim/__main__.py", "venv.py", "pip.py", "click.py", "yaml.py", "json.py"):
        (repository / name).write_text(f"open({str(repository / 'canary')!r}, 'w')\n")
    ended = run_step(repository, "models/g.yaml", options="--gpu 4")
    assert (ended.code, ended.complaint) == (0, "")
    assert "::error" not in ended.output
    install = ACTION_FILE["runs"]["steps"][0]["run"].splitlines()
    modules = [line.partition("python")[2] for line in install if " -m " in line]
    for start, module in zip(modules, ("venv", "pip"), strict=True):
        flags = re.findall(r"-[IP]\b", start.partition(" -m ")[0])
        assert run_process((sys.executable, *flags, "-m", module, "--help"), folder=repository).code == 0
    assert not (repository / "canary").exists()


def test_the_workflow_runs_make_check() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert any(step.get("run", "").startswith("make check ") for step in workflow["jobs"]["check"]["steps"])
