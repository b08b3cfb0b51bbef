"""Shell completion: what is offered, and that a real bash takes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import ROOT, Shell

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}


def offered(line: str, cwd: Path = ROOT) -> list[str]:
    """What bash is answered where the last word of the line is begun."""
    words = line.split(" ")
    variables = {"_PLACESIM_COMPLETE": "bash_complete", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    command = [sys.executable, "-m", "placesim"]
    ended = subprocess.run(command, cwd=cwd, env=ENVIRONMENT | variables, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    return ended.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("placesim pla", "plain,place"),
        ("placesim place --no-so", "plain,--no-soft-placement"),
        ("placesim place ", "file,"),
        ("placesim place g.yaml --log-style cl", "plain,classic"),
        ("placesim check g.yaml --format ju", "plain,junit"),
        ("placesim check g.yaml --rule no-so", "plain,no-soft-fallback"),
        ("placesim place g.yaml --gpu-model GeForce", "plain,GeForce\\\\ GTX\\\\ 1080"),
        ("placesim explain graphs/logging.yaml Mat", "plain,MatMul"),
        ("placesim run graphs/logging.yaml --fetch Mat", "plain,MatMul"),
        ("placesim manual graph-f", "plain,graph-file"),
        ("placesim ops MatMu", "plain,MatMul"),
        ("placesim help conv", "plain,convert"),
        ("placesim run g.yaml --inventory ", "file,"),
    ],
)
def test_words(line: str, expected: str) -> None:
    assert expected in offered(line)


def test_a_script_is_not_run_for_its_names(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("open('ran', 'w')\n")
    assert offered("placesim run script.py --fetch a", tmp_path) == [""]
    assert offered("placesim run none.yaml --fetch a", tmp_path) == [""]
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def test_a_real_bash_takes_it(tmp_path: Path, shell: Shell) -> None:
    program = tmp_path / "placesim"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m placesim "$@"\n')
    program.chmod(0o755)
    (tmp_path / "script").write_text(shell("completion", "bash").output)
    asked = f"""
        source {tmp_path}/script
        COMP_WORDS=(placesim place g.yaml --gpu-model 'Tesla\\ K4')
        COMP_CWORD=4
        $(complete -p placesim | sed 's/.*-F \\([^ ]*\\) .*/\\1/') {program}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    ended = subprocess.run(["bash", "-c", asked], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("Tesla\\ K40c\n", "")


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_install(shell: Shell, monkeypatch: pytest.MonkeyPatch, shell_name: str) -> None:
    monkeypatch.setenv("HOME", str(shell.directory))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    script = shell("completion", shell_name).output
    assert "_PLACESIM_COMPLETE" in script
    start = shell.directory / f".{shell_name}rc"
    start.write_text("alias ll=ls")
    assert shell("completion", shell_name, "--install").code == 0
    once = start.read_text()
    assert shell("completion", shell_name, "--install").code == 0
    assert start.read_text() == once
    written = [path for path in shell.directory.rglob("*") if path.is_file() and path != start]
    assert [path.read_text() for path in written] == [script]
    assert once.splitlines()[0] == "alias ll=ls"
    assert (str(written[0]) in once) is (shell_name != "fish")


def test_the_shell_of_the_environment(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert shell("completion").output == shell("completion", "fish").output
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert shell("completion").complaint.startswith("UsageError: unknown shell: got 'tcsh' in SHELL")
