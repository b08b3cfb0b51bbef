"""Forms in which the studio saves a state: what they hold, and that placing them gives the state's placement."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

import placesim
from placesim.core.errors import UsageError
from placesim.studies.studio.messages import Saved
from placesim.studies.studio.saving import save_kinds, save_state
from placesim.studies.studio.source import StudioSource
from placesim.studies.studio.studio import Studio
from tests.processes import ROOT
from tests.studies.studio.test_studio import changed

TEXT = """\
# two layers
devices: {cpu: 1, gpu: 2}
nodes:
- {op: Const, name: x, value: 1.0}
- scope: a
  nodes:  # the first
  - {op: Sqrt, name: y, inputs: [x]}
- {op: Sqrt, name: z, inputs: [a/y]}
fetch: z
"""


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    (tmp_path / "graph.yaml").write_bytes(TEXT.encode())
    return Studio(StudioSource(str(tmp_path / "graph.yaml"), {}))


def saved(studio: Studio, kind: str, **settings: Any) -> Saved:
    options = {name: settings.pop(name) for name in ("is_written", "overwrites") if name in settings}
    return save_state(studio, 1, changed(studio.source.start, **settings), kind, lambda: "<html>", **options)


def test_a_graph_file_keeps_the_text_that_was_not_touched(studio: Studio) -> None:
    found = saved(studio, "yaml", devices=[["a/", "/cpu:0"]], options={"gpu": 1, "soft_placement": True, "batch": 2})
    expected = TEXT.replace("gpu: 2}", "gpu: 1}\nconfig: {allow_soft_placement: true}")
    assert found["content"] == expected.replace("- scope: a\n", "- scope: a\n  device: /cpu:0\n")
    assert (found["options"], found["notes"]) == (
        {"batch": 2},
        ["this form cannot hold these options; give them to the command: --batch 2"],
    )
    unread = saved(studio, "yaml", text="nodes: [")
    assert unread["content"] == "nodes: ["
    refused = saved(studio, "yaml", devices=[["a/", "/gpu:9"]])
    assert refused["content"] == f"{TEXT}placement:\n  a/: /gpu:9\n"
    assert "cannot be placed" in refused["notes"][0]
    smaller = saved(studio, "yaml", devices=[["a/", "/gpu:1"]], options={"gpu": 1})
    assert smaller["content"] == f"{TEXT.replace('gpu: 2', 'gpu: 1')}placement:\n  a/: /gpu:1\n"
    with pytest.raises(UsageError, match="cannot save as pb: InvalidArgumentError"):
        saved(studio, "pb", devices=[["a/", "/gpu:9"]])


def test_a_graph_file_holds_links_threads_and_the_release(studio: Studio) -> None:
    own = "links:\n- {between: [GPU:*, host], bandwidth: PCIe 3.0 x16}  # all\n- {between: [GPU:0, GPU:1], bandwidth: 9GB/s}\n"
    text = TEXT.replace("nodes:\n- {op: C", f"{own}nodes:\n- {{op: C")
    options = {"tensorflow": "1.15", "inter_op_threads": 3, "optimize": True, "link": ["GPU:0>host=25GB/s@2us"]}
    found = saved(studio, "yaml", text=text, options=options)
    config = (
        "config: {inter_op_parallelism_threads: 3, graph_options: {optimizer_options: {do_constant_folding: true}}}\n"
        "tensorflow: '1.15'\n"
    )
    row = "{between: ['GPU:0', host], bandwidth: 25GB/s, latency: 2us, ways: one}"
    rest = "{between: ['GPU:1', host], bandwidth: 15753846153.846153, latency: 5.0e-06, kind: pcie}"
    links = f"links: [{rest}, {{between: ['GPU:0', 'GPU:1'], bandwidth: 9GB/s}}, {row}]\n"
    assert found["content"] == text.replace(own, links + config)
    assert (found["options"], found["notes"]) == ({}, [])
    added = saved(studio, "yaml", text=text, options={"link": ["host-network=100Gbit/s"]})
    more = "- {between: [host, network], bandwidth: 100Gbit/s}\n"
    assert added["content"] == text.replace(own, own + more)
    model = saved(studio, "pb", options={"gpu": 1, "clear_devices": True})
    assert model["notes"] == ["this form cannot hold these options; give them to the command: --gpu 1"]


def test_edits_that_devices_of_entries_cannot_express_are_rows_of_placement() -> None:
    studio = Studio(StudioSource(str(ROOT / "graphs/cifar10-towers.yaml"), {}))
    text = studio.source.start["text"]
    assert text is not None
    for path in ("conv2/", "conv2/weights"):  # the gradients of its entries are elsewhere, and TensorFlow colocates them
        found = saved(studio, "yaml", devices=[[path, "/gpu:0"]])
        assert found["content"] == f"{text}placement:\n  {path}: /gpu:0\n"
    smaller = saved(studio, "yaml", devices=[["conv2/", "/gpu:0"]], options={"gpu": 1, "soft_placement": True})
    assert "count: 1" in smaller["content"]
    assert smaller["content"].startswith("# CIFAR-10's")
    assert smaller["content"].endswith("placement:\n  conv2/: /gpu:0\n")


def test_the_groups_of_initializers_follow_a_scope_that_moves(studio: Studio) -> None:
    scopes = "".join(f"- scope: t{n}\n  device: /gpu:{n}\n  nodes:\n  - {{variable: v, shape: [2]}}\n" for n in range(2))
    text = f"devices: {{cpu: 1, gpu: 3}}\nnodes:\n{scopes}- {{initializer: init}}\nfetch: init\n"
    found = saved(studio, "yaml", text=text, devices=[["t1/", "/gpu:2"]])
    assert found["content"] == text.replace("/gpu:1", "/gpu:2")


def test_only_the_named_file_is_written_and_only_if_it_is_unchanged(studio: Studio, tmp_path: Path) -> None:
    path = tmp_path / "graph.yaml"
    written = saved(studio, "yaml", devices=[["z", "/gpu:1"]], is_written=True)
    assert written["written"] == str(path)
    assert path.read_text("utf-8") == written["content"]
    path.write_text(TEXT, "utf-8")
    late = saved(studio, "yaml", text=TEXT + "# mine\n", is_written=True)
    assert (late["conflict"], late["written"], path.read_text("utf-8")) == (True, None, TEXT)
    assert not saved(studio, "yaml", text=TEXT + "# mine\n", is_written=True, overwrites=True)["conflict"]
    assert path.read_text("utf-8") == TEXT + "# mine\n"
    for kind in ("pb", "page", "options"):
        with pytest.raises(UsageError, match="cannot save as"):
            saved(studio, kind, is_written=True)
    for kind in ("../evil", "/tmp/x.yaml", "onnx", "patch", "None"):
        with pytest.raises(UsageError, match="cannot save as"):
            saved(studio, kind)
    assert list(tmp_path.iterdir()) == [path]


def test_line_ends_and_the_mark_of_byte_order_stay(tmp_path: Path) -> None:
    path = tmp_path / "graph.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    studio = Studio(StudioSource(str(path), {}))
    assert studio.source.start["text"] == TEXT
    saved(studio, "yaml", text=TEXT.replace("1.0", "2.0"), is_written=True)
    assert path.read_bytes() == b"\xef\xbb\xbf" + TEXT.replace("1.0", "2.0").replace("\n", "\r\n").encode()


def test_every_form_gives_the_placement_of_the_state(studio: Studio, tmp_path: Path) -> None:
    devices = [["z", "/gpu:0"], ["*", ""], ["a/y", "/cpu:0"], ["a/", "/gpu:1"], ["[z]", "/cpu:0"]]
    places = {"x": "GPU:1", "a/y": "GPU:1", "z": "CPU:0"}  # x follows its reader
    for kind in ("yaml", "json", "pb", "pbtxt"):
        found = saved(studio, kind, devices=devices)
        path = tmp_path / f"saved.{kind}"
        path.write_bytes(b64decode(found["content"]) if found["is_binary"] else found["content"].encode())
        rows = placesim.place(path, gpu=2, fetch="z").document()["placements"]
        assert {row["node"]: row["device"][-5:] for row in rows if row["node"] in places} == places, kind
    options = saved(studio, "options", devices=devices, options={"gpu": 2, "soft_placement": False, "link": ["a-b=1GB/s"]})
    assert options["content"] == (
        "--gpu 2 --no-soft-placement --link a-b=1GB/s --clear-devices "
        "--device a/y=/cpu:0 --device a/=/gpu:1 --device '[z]=/cpu:0'\n"
    )
    script = saved(studio, "script", devices=devices)
    (tmp_path / script["name"]).write_text(script["content"], "utf-8")
    code = (
        "from graph_devices import *\nfrom types import SimpleNamespace as Op\nprint(planned_device(Op(name='a/y', device='')))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == "/gpu:1\n"
    assert '"z/": "/gpu:0"' not in script["content"]


def test_the_forms_of_each_source() -> None:
    kinds = {
        name: {row["kind"] for row in save_kinds(StudioSource(str(ROOT / name), {}))}
        for name in ("graphs/towers.yaml", "graphs/image-towers.onnx")
    }
    assert kinds["graphs/image-towers.onnx"] - kinds["graphs/towers.yaml"] == {"onnx"}
    onnx = Studio(StudioSource(str(ROOT / "graphs/image-towers.onnx"), {"gpu": 1}))
    found = saved(onnx, "onnx")
    assert (found["name"], found["is_binary"]) == ("image-towers.onnx", True)
    assert saved(onnx, "page")["content"] == "<html>"
