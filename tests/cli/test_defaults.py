"""Options that the command line does not name: variables, and files of settings."""

from __future__ import annotations

import click
import pytest

from placesim.cli.commands import COMMANDS, command_named
from placesim.cli.defaults import defaults_of
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
        ("cpu = 1\ngpu = 'two'\n", "placesim.toml:2: wrong value of gpu: got 'two': 'two' is not a valid integer."),
        ("gpu = 1.5\n", "placesim.toml:1: wrong value of gpu: got '1.5'"),
        ("gpu = true\n", "placesim.toml:1: wrong value of gpu: got true, expected a string or a number"),
        ("gpu = [1]\n", "placesim.toml:1: wrong value of gpu: got '[1]', expected a string or a number"),
        ("[devices]\ngpu-models = 1\n", "placesim.toml:2: wrong value of gpu-models: got '1', expected true or false"),
        ("[devices]\nformat = 'yson'\n", "placesim.toml:2: wrong value of format: got 'yson', expected text or"),
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


@pytest.mark.parametrize("key", ["allow-all-files = true", "allow-read = '/'", "trace = 'x'"])
def test_a_file_lets_nothing_touch_files(shell: Shell, key: str) -> None:
    shell.write("graph.yaml", GRAPH)
    shell.write("placesim.toml", f"[run]\n{key}\n")
    ended = shell("run", "graph.yaml")
    assert (ended.code, ended.output) == (2, "")
    assert ended.complaint.startswith("UsageError: placesim.toml:2: not allowed in a file: got ")


def test_the_environment_may(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.write("graph.yaml", GRAPH)
    monkeypatch.setenv("PLACESIM_OUTPUT", "graph.json")
    assert shell("show", "graph.yaml").output == ""
    assert (shell.directory / "graph.json").is_file()


def test_a_wrong_variable(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACESIM_GPU", "two")
    assert shell("devices").complaint == "UsageError: wrong PLACESIM_GPU: got 'two': 'two' is not a valid integer.\n"
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
            found = defaults_of(command, name, list(COMMANDS))
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
