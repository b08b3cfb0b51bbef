"""Reports on terminals of several widths."""

from __future__ import annotations

import re

import pytest

from tests.cli.shell import ROOT, Shell

STYLE = re.compile(r"\x1b\[[0-9;]*m")
NAME = "tower_1/gradients/tower_1/conv1_grad/Conv2DBackpropFilter"
TOWERS = str(ROOT / "graphs/cifar10-towers.yaml")
PLAIN: dict[str, str] = {}
"""The words of reports in a pipe, which has no width."""


@pytest.mark.slow
@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(
    "words",
    [
        ["explain", TOWERS, NAME, "tower/conv1"],
        ["place", TOWERS, "--summary", "--log-filter", "none"],
        ["simulate", TOWERS],
        ["memory", TOWERS],
        ["diff", TOWERS, "--soft-placement", "--a-gpu", "2", "--b-gpu", "1"],
        ["check", TOWERS, "--gpu", "1", "--soft-placement", "--rule", "no-soft-fallback"],
        ["show", TOWERS, "--soft-placement", "--gpu", "2"],
        ["devices", "--gpu", "2"],
        ["ops", "MatMul"],
    ],
    ids=lambda words: words[0],
)
def test_every_report_fits_the_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch, words: list[str], width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    shown = STYLE.sub("", shell("--color", "always", *words).output).splitlines()
    log = ("/job:", "Device mapping") if words[0] == "place" else ("\0",)
    assert shown
    assert max(len(line.rstrip()) for line in shown if not line.startswith(log)) <= width
    if words[0] in ("explain", "diff", "check"):
        if words[0] not in PLAIN:
            PLAIN[words[0]] = "".join(shell(*words).output.split())
        assert "".join("".join(shown).split()) == PLAIN[words[0]]
