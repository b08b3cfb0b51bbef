"""What every command has: its help, and how it speaks."""

from __future__ import annotations

import os
import re

import click
import pytest

from placesim.cli.command import GENERAL_OPTIONS, Command
from placesim.cli.commands import COMMANDS
from placesim.cli.group import placesim
from placesim.cli.option_types import GROUPS
from tests.cli.shell import Shell

every_command = pytest.mark.parametrize("name", COMMANDS)
SOFT = (
    "config: {allow_soft_placement: true}\nnodes:\n  - {op: Const, name: a, value: 1.0, device: '/device:GPU:0'}\nfetch: [a]\n"
)


def command_of(name: str) -> click.Command:
    assert isinstance(placesim, click.Group)
    found = placesim.get_command(click.Context(placesim), name)
    assert found is not None
    return found


@every_command
def test_help_has_every_option_in_a_group_and_the_exit_codes(shell: Shell, name: str) -> None:
    ended = shell(name, "--help")
    assert (ended.code, ended.complaint) == (0, "")
    sections = re.findall(r"^(\S.*):$", ended.output, re.MULTILINE)
    assert [title for title in GROUPS if title in sections] == sections[:-1]
    assert sections[-1] == "Exit codes"
    codes = re.findall(r"^  (\d+) +\S", ended.output[ended.output.rindex("Exit codes:") :], re.MULTILINE)
    assert codes == sorted(codes, key=int)
    assert {"0", "2", "70", "130"} <= set(codes)
    for param in command_of(name).params:
        if isinstance(param, click.Option):
            assert all(option in ended.output for option in param.opts)


@every_command
def test_help_of_a_command_is_its_own(shell: Shell, name: str) -> None:
    assert shell("help", name) == shell(name, "--help")


@every_command
def test_a_command_takes_the_general_options(name: str) -> None:
    found = command_of(name)
    assert isinstance(found, Command)
    assert set(GENERAL_OPTIONS) <= set(found.params)


def test_help_lists_the_commands(shell: Shell) -> None:
    assert shell("help") == shell("--help")
    assert all(f"\n  {name} " in shell("help").output for name in COMMANDS)


def test_help_of_what_is_no_command(shell: Shell) -> None:
    ended = shell("help", "rum")
    assert (ended.code, ended.output) == (2, "")
    assert "no such command: got 'rum'" in ended.complaint
    assert "did you mean 'run'?" in ended.complaint
    assert "`placesim manual placement` is a page" in shell("help", "placement").complaint
    assert "`placesim manual tensorflow-files` is a page" in shell("help", "tensor-flow-file").complaint
    assert "; did you mean `placesim manual tutorial`?" in shell("tutorial").complaint


def test_the_short_version(shell: Shell) -> None:
    assert shell("-V") == shell("--version")
    assert re.fullmatch(r"placesim \S+\n", shell("-V").output)


def test_quiet_leaves_warnings_out_but_not_errors(shell: Shell) -> None:
    shell.write("soft.yaml", SOFT)
    loud = shell("place", "soft.yaml", "--log-filter", "nothing")
    assert "no node matches 'nothing' in --log-filter" in loud.complaint
    for arguments in (("-q", "place", "soft.yaml"), ("place", "soft.yaml", "--quiet")):
        ended = shell(*arguments, "--log-filter", "nothing")
        assert ended == (loud.code, loud.output, "")
    shell.write("hard.yaml", SOFT.replace("true", "false"))
    assert shell("place", "hard.yaml", "-q").complaint == shell("place", "hard.yaml").complaint != ""


def test_color(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.write("soft.yaml", SOFT)
    plain = shell("place", "soft.yaml")
    assert "\x1b[" not in plain.output
    always = shell("place", "soft.yaml", "--color", "always")
    assert "\x1b[" in always.output
    assert re.sub(r"\x1b\[[\d;]*m", "", always.output) == plain.output
    assert shell("--color", "always", "place", "soft.yaml") == always
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert shell("place", "soft.yaml") == always
    assert shell("place", "soft.yaml", "--color", "auto") == always
    assert shell("place", "soft.yaml", "--color", "never") == plain
    assert os.environ["FORCE_COLOR"] == "1"
    assert "NO_COLOR" not in os.environ
    error = shell("place", "soft.yaml", "--color", "bright").complaint
    assert "got 'bright', expected auto or always or never" in re.sub(r"\x1b\[[\d;]*m", "", error)


def test_the_short_name_of_output(shell: Shell) -> None:
    shell.write("soft.yaml", SOFT)
    assert shell("show", "soft.yaml", "-o", "soft.json").code == 0
    assert (shell.directory / "soft.json").read_text() == shell("show", "soft.yaml", "--format", "json").output
