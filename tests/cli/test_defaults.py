"""Options that the command line does not name: variables, and files of settings."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import get_args

import click
import numpy as np
import pytest

from placesim.cli.commands import COMMANDS, command_named
from placesim.cli.defaults import defaults_of
from placesim.cli.option_types import CHECKPOINTS, CLUSTER, FILE_ACCESS, FolderValues, Option
from tests.cli.shell import Shell

GRAPH = "nodes:\n  - {op: Const, name: a, value: 1.0}\n  - {op: Neg, name: b, inputs: [a]}\nfetch: [b]\n"


def gpus(shell: Shell, *arguments: str) -> int:
    ended = shell("devices", *arguments)
    assert (ended.code, ended.complaint) == (0, "")
    return ended.output.count("device:GPU")


def test_what_goes_before_what(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.write("placesim.toml", "gpu = 2\n")
    assert gpus(shell) == 2
    shell.write("placesim.toml", "gpu = 2\n[devices]\ngpu = 3\n[run]\ngpu = 9\n")
    assert gpus(shell) == 3
    monkeypatch.setenv("PLACESIM_GPU", "4")
    assert gpus(shell) == 4
    monkeypatch.setenv("PLACESIM_DEVICES_GPU", "5")
    assert gpus(shell) == 5
    assert gpus(shell, "--gpu", "6") == 6
    monkeypatch.setenv("PLACESIM_GPU", "")
    monkeypatch.setenv("PLACESIM_DEVICES_GPU", "")
    monkeypatch.setenv("PLACESIM_CONFIG", "")
    assert gpus(shell) == 0


def test_the_nearest_folder_upwards(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    (shell.directory / "a/b").mkdir(parents=True)
    shell.write("placesim.toml", "gpu = 2\n")
    monkeypatch.chdir(shell.directory / "a/b")
    assert gpus(shell) == 2
    shell.write("a/pyproject.toml", "[project]\nname = 'a'\n")
    assert gpus(shell) == 2
    shell.write("a/pyproject.toml", "[tool.placesim]\ngpu = 3\n[tool.placesim.devices]\ncpu = 2\n")
    assert gpus(shell) == 3
    assert "CPU:1" in shell("devices").output
    shell.write("a/placesim.toml", "gpu = 4\n")
    assert gpus(shell) == 4
    monkeypatch.setenv("PLACESIM_CONFIG", str(shell.directory / "placesim.toml"))
    assert gpus(shell) == 2


def test_flags_and_options_that_repeat(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.write("graph.yaml", GRAPH)
    shell.write("placesim.toml", "[run]\nfetch = ['a', 'b']\nno_log_placement = true\n")
    assert shell("run", "graph.yaml").output == "a:\n1.0\nb:\n-1.0\n"
    assert shell("run", "graph.yaml", "--fetch", "a").output == "1.0\n"
    assert "Device mapping" in shell("run", "graph.yaml", "--log-placement").output
    monkeypatch.setenv("PLACESIM_FETCH", "a")
    assert shell("run", "graph.yaml").output == "1.0\n"
    monkeypatch.setenv("PLACESIM_LOG_PLACEMENT", "yes")
    assert "Device mapping" in shell("run", "graph.yaml").output
    monkeypatch.setenv("PLACESIM_FEED", "'a= 2.0'")
    monkeypatch.setenv("PLACESIM_LOG_PLACEMENT", "no")
    assert shell("run", "graph.yaml", "--fetch", "b").output == "-2.0\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("\ngpus = 2\n", "placesim.toml:2: no such key: got 'gpus', expected an option; did you mean 'gpu'?"),
        ("[devises]\ngpu = 1\n", "placesim.toml:1: no such key: got 'devises', expected a command's table; did you mean"),
        ("[devices]\n\nfetch = 'a'\n", "placesim.toml:3: no such key: got 'fetch', expected an option of `placesim devices`"),
        ("devices.gpus = 2\n", "placesim.toml:1: no such key: got 'gpus'"),
        ("cpu = 1\ngpu = 'two'\n", "placesim.toml:2: wrong value of 'gpu': got 'two', expected a whole number"),
        ("gpu = 1.5\n", "placesim.toml:1: wrong value of 'gpu': got '1.5'"),
        ("gpu = true\n", "placesim.toml:1: wrong value of 'gpu': got true, expected a string or a number"),
        ("gpu = [1]\n", "placesim.toml:1: wrong value of 'gpu': got '[1]', expected a string or a number"),
        ("[devices]\ngpu-models = 1\n", "placesim.toml:2: wrong value of 'gpu-models': got '1', expected true or false"),
        ("[devices]\nformat = 'yson'\n", "placesim.toml:2: wrong value of 'format': got 'yson', expected text or"),
        ("gpu = \n", "placesim.toml:1:7: invalid TOML: got 'Invalid value', expected keys and values"),
        ("gpu = 1\ngpu = 2\n", "placesim.toml:2:8: invalid TOML: got 'Cannot overwrite a value'"),
        ("gpu = 1\n[run]\nfetch = [", "placesim.toml:3:10: invalid TOML: got 'Invalid value'"),
        ("devices = 3\n", "placesim.toml:1: no such key: got 'devices', expected an option"),
    ],
)
def test_what_is_wrong_is_located(shell: Shell, text: str, complaint: str) -> None:
    shell.write("placesim.toml", text)
    ended = shell("devices")
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint.startswith(f"UsageError: {complaint}")
    assert shell("devices", "--help").code == 0


def test_a_key_of_another_command_is_none_of_ours(shell: Shell) -> None:
    shell.write("placesim.toml", "log-placement = true\n[run]\nanything = 1\n")
    assert gpus(shell) == 0


@pytest.fixture
def own_settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the user's own settings, where nothing is."""
    folder = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    path = folder / "placesim/config.toml"
    path.parent.mkdir()
    return path


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_a_found_file_may_set(name: str) -> None:
    for param in command_named(name).params:
        if isinstance(param, click.Option):
            assert isinstance(param, Option), (
                f"{param.opts} has no folder_values: it is made by option(), not by click.option()"
            )
            assert param.folder_values in get_args(FolderValues)
            if isinstance(param.type, click.Path) or param.group in (CLUSTER, FILE_ACCESS, CHECKPOINTS):
                assert param.folder_values == "none", param.opts


def test_an_option_without_that_answer() -> None:
    with pytest.raises(TypeError, match="folder_values"):
        Option(["--new"])  # type: ignore[call-arg]  # what is missing is tested


SET_BY_NO_FOLDER = [
    ("run", "allow-all-files = true"),
    ("run", "allow-read = '/'"),
    ("run", "allow-write = ['/']"),
    ("run", "trace = 'written'"),
    ("run", "report = 'written'"),
    ("run", "engine = 'dask'"),
    ("run", "checkpoint = 'written'"),
    ("run", "no-memory-limit = true"),
    ("run", "timeout = 1e-9"),
    ("run", "quiet = true"),
    ("show", "output = 'written'"),
    ("show", "open = true"),
    ("simulate", "execute = true"),
    ("plan", "html = 'written'"),
    ("plan", "jobs = 200"),
    ("sweep", "set = 'checkpoint=written'"),
    ("sweep", "jobs = 200"),
    ("sweep", "max-combinations = 1"),
    ("check", "rules = true"),
    ("diff", "html = 'written'"),
]


@pytest.mark.parametrize("is_table", [False, True])
@pytest.mark.parametrize(("name", "setting"), SET_BY_NO_FOLDER)
def test_what_a_found_file_may_not_set(
    name: str, setting: str, is_table: bool, shell: Shell, own_settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ignored and said once, and the command does as without it."""
    monkeypatch.setattr("webbrowser.open", lambda url: pytest.fail("a browser is opened"))
    shell.write("graph.yaml", GRAPH)
    arguments = [
        name,
        "graph.yaml",
        *{"diff": ["graph.yaml"], "sweep": ["--gpu", "0"], "plan": ["--evaluations", "1"]}.get(name, []),
    ]
    if name in ("plan", "sweep") and not setting.startswith("jobs"):
        arguments += ["--jobs", "1"]  # in this process
    plain = shell(*arguments)
    shell.write("placesim.toml", f"[{name}]\n{setting}\n" if is_table else f"\n{setting}\n")
    ended = shell(*arguments)
    assert (ended.code, ended.output) == (plain.code, plain.output)
    key = setting.partition(" ")[0]
    variable = f"PLACESIM_{key.upper().replace('-', '_')}"
    where = f"expected it on the command line, in {variable} or in {own_settings}"
    sentence = f"Warning: placesim.toml:2: ignored {key}: a file found in a folder may not set it; {where}\n"
    assert ended.complaint == sentence + plain.complaint
    assert sorted(path.name for path in shell.directory.iterdir()) == ["graph.yaml", "placesim.toml"]
    assert shell(*arguments, "--quiet").complaint == ""


@pytest.mark.parametrize("name", ["devices", "plan", "sweep", "run"])
def test_a_found_file_connects_to_no_scheduler(name: str, shell: Shell) -> None:
    shell.write("graph.yaml", GRAPH)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        engine = "engine = 'dask'\n" if name == "run" else ""
        shell.write("pyproject.toml", f"[tool.placesim]\nscheduler = '{address}'\nscheduler-timeout = 0.2\n{engine}")
        graph = {
            "devices": [],
            "sweep": ["graph.yaml", "--gpu", "0,1", "--jobs", "1"],
            "plan": ["graph.yaml", "--evaluations", "1"],
        }
        ended = shell(name, *graph.get(name, ["graph.yaml"]))
        with pytest.raises(BlockingIOError):
            server.accept()
    assert ended.code == 0
    assert "Warning: pyproject.toml:2: ignored scheduler: " in ended.complaint
    assert "Warning: pyproject.toml:3: ignored scheduler-timeout: " in ended.complaint


def test_a_found_file_installs_and_overwrites_nothing(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(shell.directory))
    monkeypatch.setenv("XDG_DATA_HOME", str(shell.directory / "data"))
    shell.write("placesim.toml", "install = true\nforce = true\n")
    shell.write("mine.yaml", "mine")
    ended = shell("completion", "bash")
    assert "Warning: placesim.toml:1: ignored install: " in ended.complaint
    ended = shell("new", "mine.yaml")
    assert ended.code == 2
    assert "Warning: placesim.toml:2: ignored force: " in ended.complaint
    assert (shell.directory / "mine.yaml").read_text() == "mine"
    assert sorted(path.name for path in shell.directory.iterdir()) == ["mine.yaml", "placesim.toml"]


MACHINE = "devices: {cpu: 1, gpu: 3}\n"


@pytest.mark.parametrize("way", ["absolute", "upwards", "link"])
def test_a_found_file_names_only_files_of_its_folder(way: str, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    (shell.directory / "theirs").mkdir()
    shell.write("machine.yaml", MACHINE)
    shell.write("theirs/machine.yaml", MACHINE)
    outside = {"absolute": str(shell.directory / "machine.yaml"), "upwards": "../machine.yaml", "link": "link.yaml"}[way]
    (shell.directory / "theirs/link.yaml").symlink_to(shell.directory / "machine.yaml")
    monkeypatch.chdir(shell.directory / "theirs")
    shell.write("theirs/placesim.toml", "inventory = 'machine.yaml'\n")
    assert gpus(shell) == 3
    shell.write("theirs/placesim.toml", f"inventory = '{outside}'\n")
    ended = shell("devices")
    assert "GPU" not in ended.output
    said = f"got '{outside}', and a file found in a folder may name only files of that folder"
    assert ended.complaint.startswith(f"Warning: placesim.toml:1: ignored inventory: {said}; expected it on")


def test_a_found_file_feeds_nothing_from_elsewhere(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(shell.directory / "secret.npy", np.float32(42.0))
    (shell.directory / "theirs").mkdir()
    np.save(shell.directory / "theirs/own.npy", np.float32(7.0))
    shell.write("theirs/graph.yaml", GRAPH)
    monkeypatch.chdir(shell.directory / "theirs")
    shell.write("theirs/placesim.toml", "feed = ['a=@own.npy']\n")
    assert shell("run", "graph.yaml").output == "-7.0\n"
    shell.write("theirs/placesim.toml", "feed = ['a=@../secret.npy']\n")
    ended = shell("run", "graph.yaml")
    assert ended.output == "-1.0\n"
    assert ended.complaint.startswith("Warning: placesim.toml:1: ignored feed: got 'a=@../secret.npy', and ")


def test_a_found_file_feeds_no_file_that_yaml_names(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(shell.directory / "secret.npy", np.float32(42.0))
    (shell.directory / "theirs").mkdir()
    shell.write("theirs/graph.yaml", GRAPH)
    monkeypatch.chdir(shell.directory / "theirs")
    for file in ("../secret.npy", shell.directory / "secret.npy", "own.npy"):
        shell.write("theirs/placesim.toml", f"feed = ['a={{file: {file}}}']\n")
        ended = shell("run", "graph.yaml")
        assert ended.output == "-1.0\n"
        assert ended.complaint.startswith(f"Warning: placesim.toml:1: ignored feed: got 'a={{file: {file}}}', and ")
    shell.write("theirs/placesim.toml", "feed = ['nonsense', 'a=@../secret.npy']\n")
    assert "ignored feed: got 'a=@../secret.npy', and " in shell("run", "graph.yaml").complaint
    shell.write("theirs/placesim.toml", "feed = ['a=3.0']\n")
    assert shell("run", "graph.yaml").output == "-3.0\n"


@pytest.mark.parametrize(
    "rule", ["baseline=../report.json", "baseline: {file: ../report.json}", '{"base\\u006cine": ../report.json}']
)
def test_a_found_file_reads_no_report_from_elsewhere(rule: str, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.write("graph.yaml", GRAPH)
    shell.write("report.json", shell("place", "graph.yaml", "--format", "json").output)
    (shell.directory / "theirs").mkdir()
    shell.write("theirs/graph.yaml", GRAPH)
    monkeypatch.chdir(shell.directory / "theirs")
    shell.write("theirs/placesim.toml", f"rule = ['{rule}']\n")
    assert shell("check", "graph.yaml").complaint.startswith(f"Warning: placesim.toml:1: ignored rule: got '{rule}', and ")
    shell.write("theirs/placesim.toml", "rule = ['baseline=report.json']\n")
    shell.write("theirs/report.json", (shell.directory / "report.json").read_bytes())
    assert shell("check", "graph.yaml") == (0, "", "no findings in 1 graph\n")
    shell.write("theirs/placesim.toml", "rule = ['no-such-rule']\n")
    assert shell("check", "graph.yaml").complaint.startswith("UsageError: unknown rule: got 'no-such-rule'")


def test_the_users_own_file_may_set_all(shell: Shell, own_settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.write("graph.yaml", GRAPH)
    own_settings.write_text("gpu = 2\n[show]\noutput = 'graph.json'\n")
    assert gpus(shell) == 2
    ended = shell("show", "graph.yaml")
    assert (ended.output, ended.complaint) == ("", "")
    assert (shell.directory / "graph.json").is_file()
    shell.write("placesim.toml", "gpu = 3\n")
    assert gpus(shell) == 3
    monkeypatch.setenv("PLACESIM_CONFIG", "")
    assert gpus(shell) == 0
    monkeypatch.setenv("PLACESIM_CONFIG", str(own_settings))
    assert gpus(shell) == 2
    monkeypatch.delenv("PLACESIM_CONFIG")
    own_settings.write_text("gpus = 2\n")
    assert shell("devices").complaint.startswith(f"UsageError: {own_settings}:1: no such key: got 'gpus'")


def test_a_relative_config_home_is_none(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be the folder's."""
    (shell.directory / "placesim").mkdir()
    shell.write("placesim/config.toml", "gpu = 2\n")
    monkeypatch.setenv("HOME", str(shell.directory / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", ".")
    assert gpus(shell) == 0


@pytest.mark.posix("named pipes")
def test_settings_in_no_file_end_at_once(shell: Shell, own_settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = shell.directory / "pipe"
    os.mkfifo(pipe)
    for path, kind in ((str(pipe), "a pipe, not a file"), ("/dev/zero", "a device, not a file"), ("/", "Is a directory")):
        monkeypatch.setenv("PLACESIM_CONFIG", path)
        ended = shell("devices")
        assert (ended.code, ended.complaint) == (
            2,
            f"UsageError: cannot read {path}: got '{kind}', expected a settings file\n",
        )
    monkeypatch.delenv("PLACESIM_CONFIG")
    os.mkfifo(own_settings)
    assert f"cannot read {own_settings}: got 'a pipe, not a file'" in shell("devices").complaint


def test_the_environment_may(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.write("graph.yaml", GRAPH)
    monkeypatch.setenv("PLACESIM_OUTPUT", "graph.json")
    assert shell("show", "graph.yaml").output == ""
    assert (shell.directory / "graph.json").is_file()


def test_a_wrong_variable(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = shell("plan", "g.yaml", "--changes", "two").complaint
    assert wrong.startswith("UsageError: Invalid value for '--changes': got 'two', expected a whole number from 0 to 1000\n")
    monkeypatch.setenv("PLACESIM_GPU", "two")
    assert shell("devices").complaint == "UsageError: wrong PLACESIM_GPU: got 'two', expected a whole number\n"
    assert shell("devices", "--gpu", "1").code == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_default_elsewhere(name: str, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no variable of a command is that of another option."""
    command = command_named(name)
    params = [param for param in command.params if isinstance(param, click.Option)]
    for param in params:
        word = next(option for option in param.opts if option.startswith("--"))
        variable = f"PLACESIM_{name}_{word[2:].replace('-', '_')}".upper()
        with monkeypatch.context() as patch:
            patch.setenv(variable, "true" if param.is_flag else "1")
            found = defaults_of(command, name, list(COMMANDS)).values
        assert list(found) == [param.name]
        assert found[str(param.name)].source.name == variable


def test_a_file_that_is_no_text(shell: Shell) -> None:
    shell.write("placesim.toml", b"gpu = 1\ncpu = \xff\n")
    assert shell("devices").complaint.startswith(
        "UsageError: placesim.toml:2:7: invalid TOML: got 'b'\\xff', which is not UTF-8'"
    )


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("PLACESIM_GPUS", "; did you mean 'PLACESIM_GPU'?"),
        ("PLACESIM_RUN_LOG_PLACEMNT", "; did you mean 'PLACESIM_RUN_LOG_PLACEMENT'?"),
        ("PLACESIM_CONFG", "; did you mean 'PLACESIM_CONFIG'?"),
        ("PLACESIM_QQQQQQQQ", ""),
    ],
)
def test_a_variable_that_sets_nothing(shell: Shell, monkeypatch: pytest.MonkeyPatch, variable: str, hint: str) -> None:
    monkeypatch.setenv(variable, "1")
    ended = shell("devices")
    assert ended.code == 0
    said = f"unknown variable: got {variable}, expected PLACESIM_OPTION{hint}"
    assert ended.complaint == f"Warning: {said}\n"
    assert shell("devices", "--quiet").complaint == ""


def test_a_variable_of_another_command(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PLACESIM_RUN_FETCH", "PLACESIM_FETCH", "PLACESIM_NO_SOFT_PLACEMENT", "PLACESIM_SWEEP_SET", "PLACESIM_CONFIG"):
        monkeypatch.setenv(name, "")
    assert shell("devices").complaint == ""
