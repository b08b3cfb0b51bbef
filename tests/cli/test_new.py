"""`placesim new`: the graph files that come along, listed and written out."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from placesim.formats.sources import examples
from tests.cli.shell import ROOT, Shell

GRAPHS = sorted((ROOT / "graphs").glob("*.yaml"))


def test_all_are_listed_by_what_they_show(shell: Shell) -> None:
    ended = shell("new")
    head, *rows = [line.split("\t") for line in ended.output.splitlines()]
    assert head == ["name", "title"]
    assert (ended.code, [name for name, _ in rows]) == (0, [path.stem for path in GRAPHS])
    heads = {path.stem: path.read_text().replace("\n# ", " ") for path in GRAPHS}
    assert all(heads[name].startswith(f"# {title}") and 20 < len(title) < 200 for name, title in rows)


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.stem)
def test_one_is_written_out_as_it_is(path: Path, shell: Shell) -> None:
    ended = shell("new", path.stem)
    assert (ended.code, ended.output, ended.complaint) == (0, "", f"wrote {path.name}\n")
    assert Path(path.name).read_bytes() == path.read_bytes()
    assert shell("new", path.name, "-").output == path.read_text()


def test_a_file_that_is_there_stays_unless_asked(shell: Shell) -> None:
    Path("queue.yaml").write_text("mine")
    ended = shell("new", "queue")
    assert ended.code == 2
    assert ended.complaint == "UsageError: file exists: got 'queue.yaml', expected another OUT, or --force\n"
    assert Path("queue.yaml").read_text() == "mine"
    assert shell("new", "queue", "other.yaml").code == 0
    assert shell("new", "queue", "--force").code == 0
    assert Path("queue.yaml").read_text() == Path("other.yaml").read_text()


def test_no_link_is_followed_unless_asked(shell: Shell) -> None:
    Path("queue.yaml").symlink_to("elsewhere")
    ended = shell("new", "queue")
    assert (ended.code, ended.complaint) == (2, "UsageError: file exists: got 'queue.yaml', expected another OUT, or --force\n")
    assert not Path("elsewhere").exists()


def test_a_name_that_is_none(shell: Shell) -> None:
    ended = shell("new", "clster")
    assert ended.code == 2
    assert ended.complaint.endswith("did you mean 'cluster'?\n")


def test_an_installation_has_them_where_they_are_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    ((folder, (pattern,)),) = data.items()
    assert sorted(ROOT.glob(pattern)) == GRAPHS
    installed = tmp_path / folder
    installed.mkdir(parents=True)
    (installed / "one.yaml").write_text("# One thing.  And another.\nnodes: []\n")
    monkeypatch.setattr(examples, "__file__", str(tmp_path / "placesim" / "formats" / "sources" / "examples.py"))
    assert examples.titles() == {"one": "One thing."}
