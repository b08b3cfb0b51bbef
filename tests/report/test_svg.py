"""The picture as SVG and PNG, as it stands in the file."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from placesim.cli.graph_arguments import open_subject
from placesim.core.errors import UsageError
from placesim.inspection.picturing.picture import Picture, picture_of
from placesim.report.pictures.png import SCALE, png_of
from placesim.report.pictures.svg import FONT, WIDTH, Rect, format_svg
from placesim.report.pictures.text_width import fit_text, text_width
from placesim.studies.snapshots import DryRunNeed, DryRunNeeds
from tests.inspection.pictures import picture, towers_text

SVG = "{http://www.w3.org/2000/svg}"
TOWERS = towers_text(2, 2)
GRAPHS = Path(__file__).parent.parent.parent / "graphs"
LEGIBLE = 10
CLUSTER = """
devices: [{job: ps, tasks: 1, cpu: 1}, {job: worker, tasks: 1, cpu: 1, gpu: 1}]
config: {master: /job:ps/replica:0/task:0}
nodes:
  - {op: Const, name: a, value: 1.0, device: /job:ps/task:0}
  - {op: Neg, name: b, inputs: [a], device: "/job:worker/task:0/gpu:0"}
fetch: [b]
"""


def parsed(seen: Picture, depth: int | None = None) -> ElementTree.Element:
    return ElementTree.fromstring(format_svg(seen, depth))


def texts(root: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text")]


def rect_of(element: ElementTree.Element) -> Rect:
    return Rect(*(float(element.attrib[name]) for name in ("x", "y", "width", "height")))


def boxes(root: ElementTree.Element) -> dict[str, Rect]:
    """Where the boxes stand, by the names in their titles; a lane's title is its device."""
    found = {}
    for group in root.iter(f"{SVG}g"):
        title, rect = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        if title is not None and rect is not None and rect.get("stroke-width") == "1.4":
            found[f"{title.text} at {rect.get('y')}"] = rect_of(rect)
    return found


def of_file(name: str) -> Picture:
    wishes = DryRunNeeds(memory=DryRunNeed.KNOWN, costs=DryRunNeed.KNOWN)
    return picture_of(open_subject(str(GRAPHS / name), {}, wishes=wishes))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cifar10-towers.yaml", "alexnet.yaml", "cluster.yaml", "while.yaml", "variable-scopes.yaml"])
@pytest.mark.parametrize("depth", [None, 1, 3])
def test_nothing_is_hidden_and_everything_can_be_read(name: str, depth: int | None) -> None:
    root = parsed(of_file(name), depth)
    height = float(root.attrib["height"])
    found = list(boxes(root).values())
    assert found
    assert not any(one.overlaps(two) for one in found for two in found if one is not two)
    for box in found:
        assert box.x >= 0
        assert box.x + box.width <= WIDTH
        assert box.y >= 0
        assert box.y + box.height <= height
    for text in root.iter(f"{SVG}text"):
        size = float(text.get("font-size", "12"))
        assert size >= LEGIBLE
        width = text_width(text.text or "", size, is_bold=text.get("font-weight") is not None)
        start = float(text.attrib["x"]) - (width / 2 if text.get("text-anchor") else 0)
        assert start >= 0
        assert start + width <= WIDTH
        assert float(text.attrib["y"]) <= height


def test_a_lane_tells_how_busy_it_is_and_its_memory() -> None:
    shown = texts(parsed(of_file("cifar10-towers.yaml")))
    at = shown.index("GPU:0")
    assert shown[at + 1] == "65 ops"
    assert re.fullmatch(r"[\d.]+ (ms|us|s) of work", shown[at + 2])
    assert shown[at + 3] == "6.5 MiB of 4.1 GiB"
    assert "247 ops on 3 devices · 46 transfers, 16 MiB" in shown
    assert "5 alike · 65 ops" in shown


def test_what_crosses_lanes_has_its_bytes() -> None:
    shown = texts(parsed(of_file("cifar10-towers.yaml")))
    assert shown.count("4.1 MiB") == 4
    assert shown[-1] == "copied between devices (width: bytes)"


def test_a_cluster_is_grouped_by_task() -> None:
    shown = texts(parsed(picture(CLUSTER)))
    assert sorted(text for text in shown if text.startswith("/job:")) == ["/job:ps/task:0", "/job:worker/task:0"]


def test_an_error_stands_at_the_top_and_what_is_not_placed_has_a_lane() -> None:
    shown = texts(parsed(picture("nodes: [{op: NoOp, name: a, device: /gpu:7}]")))
    assert "Cannot assign a device for operation a: " in shown[1]
    assert "not placed" in shown


def test_an_empty_graph_is_no_error() -> None:
    assert "no ops" in texts(parsed(Picture("empty.yaml", ("/job:localhost/replica:0/task:0/device:CPU:0",))))


def test_depth_opens_scopes() -> None:
    seen = picture(TOWERS, gpu=2)
    assert {"model/", "tower_0/", "tower_1/", "train/"} <= set(texts(parsed(seen, 1)))
    assert "tower_1/layer_0/matmul" in {title.text for title in parsed(seen, 3).iter(f"{SVG}title")}


def test_a_name_cannot_become_markup() -> None:
    shown = format_svg(picture("nodes: [{op: NoOp, name: a}]", name='<img src=x>"&\x1b.yaml'))
    assert "<img" not in shown
    assert "\x1b" not in shown
    assert "&lt;img" in shown


def test_the_same_picture_gives_the_same_bytes() -> None:
    assert format_svg(picture(TOWERS, gpu=2)) == format_svg(picture(TOWERS, gpu=2))


def test_a_drawing_needs_nothing_outside() -> None:
    shown = format_svg(picture(TOWERS, gpu=2))
    assert set(re.findall(r"""(?:href|src)=|https?://[^\s"']*""", shown)) == {"http://www.w3.org/2000/svg"}
    assert "@font-face" not in shown
    assert FONT.split(",")[-1].strip() == "sans-serif"


def test_a_name_is_cut_before_its_last_part() -> None:
    long = "tower/gradients/tower/local3_grad/MatMul_1"
    shown = fit_text(long, 120, 12)
    assert text_width(shown, 12) <= 120
    start, end = shown.split("…")
    assert long.startswith(start)
    assert long.endswith(end)
    assert start
    assert end == "/MatMul_1"
    assert fit_text("MatMul_with_a_very_long_last_part_1", 120, 12).startswith("MatMul_")
    assert fit_text("conv1", 120, 12) == "conv1"
    assert fit_text("convolution1 … softmax", 140, 12) == "convolution1…softmax"
    assert fit_text("convolution1 … softmax", 100, 12) == "convolution1 …"
    assert fit_text("convolution1 … softmax", 60, 12).count("…") == 1
    assert fit_text("x" * 100_000, 120, 12).count("…") == 1


@pytest.mark.slow
def test_png_is_the_same_drawing() -> None:
    pytest.importorskip("resvg_py", reason="resvg is not installed: pip install 'placesim[pictures]'")
    svg = format_svg(picture(TOWERS, gpu=2))
    image = png_of(svg)
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(image[at : at + 4]) for at in (16, 20))
    size = float(ElementTree.fromstring(svg).attrib["height"])
    assert width == WIDTH * SCALE
    assert abs(height - size * SCALE) <= 1


def test_png_without_its_library_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(UsageError, match=r"pip install 'placesim\[pictures\]'`; \.svg needs none"):
        png_of(format_svg(picture(TOWERS, gpu=2)))
