"""The page of a step's time: what is in its file, and in a real headless Chromium what a person sees and does."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from placesim.errors import UsageError
from placesim.loading import load
from placesim.options import make_options
from placesim.prediction.study import TimeStudy, dearest_nodes
from placesim.report.pictures import timing_data
from placesim.report.pictures.timing_data import timing_document
from placesim.report.pictures.timing_page import timing_page
from placesim.timing import study_time
from tests.browser.chromium import Browser, Page, open_browser

GRAPH = """
devices: {cpu: 1, gpu: {count: 2, model: Tesla K80, memory: 24MiB}}
config: {gpu_options: {experimental: {gpu_system_memory_size_in_mb: 4}}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 262144]}
  - {op: Neg, name: tower/a, inputs: [x], device: /gpu:0}
  - {op: Add, name: tower/b, inputs: [tower/a, x], device: /gpu:0}
  - {op: Max, name: other/c, inputs: [tower/b, [0, 1]], device: /gpu:1}
  - {op: Neg, name: aside, inputs: [x], device: /cpu:0}
run:
  - {fetch: [other/c, aside], repeat: 3}
"""
MANY = 12_000
MAX_MANY_BYTES = 1_000_000


def study(batch: int | None = 2, name: str = "g.yaml", text: str = GRAPH) -> TimeStudy:
    options = make_options({} if batch is None else {"batch": batch})
    return study_time(lambda: load(BytesIO(text.encode()), name, options), options, name, is_traced=True)


def unpacked(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="text/plain" id="packed-data">([^<]*)</script>', page)
    assert found is not None
    document: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return document


# --- the file -------------------------------------------------------------------------------------------------------


def test_a_page_needs_no_network_and_is_the_same_each_time() -> None:
    page = timing_page(study(), 10)
    assert set(re.findall(r"""(?:src|href)=["']([^"'$]*)""", page)) <= {"data:,", "#"}
    assert set(re.findall(r"https?://[^\s\"'<)]*", page)) <= {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in page
    assert page == timing_page(study(), 10)


def test_a_name_cannot_become_markup() -> None:
    page = timing_page(study(name="</script><img src=x>.yaml"), 10)
    assert "<img src=x" not in page
    assert unpacked(page)["graph"] == "</script><img src=x>.yaml"


def test_the_columns_are_the_spans_to_less_than_a_millionth() -> None:
    seen = study()
    document = json.loads(json.dumps(timing_document(seen, 10)))
    columns, tick = document["spans"], document["tick"]
    expected = sorted(
        [(run.start, run.end, run.node) for run in seen.nodes] + [(run.start, run.end, run.tensor) for run in seen.transfers]
    )
    starts = [sum(columns["start"][: n + 1]) * tick for n in range(len(columns["start"]))]
    ends = [start + ticks * tick for start, ticks in zip(starts, columns["ticks"], strict=True)]
    names = [document["names"][number] for number in columns["name"]]
    assert sorted(names) == sorted(name for *_, name in expected)
    assert starts == pytest.approx([start for start, *_ in expected], abs=1e-7 * seen.step.seconds)
    assert sorted(ends) == pytest.approx(sorted(end for _, end, _ in expected), abs=1e-7 * seen.step.seconds)
    assert [document["names"][columns["name"][span]] for span, *_ in document["path"]] == [p.node for p in seen.critical_path]


def test_what_is_too_much_to_draw_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing_data, "MAX_SPANS", 3)
    with pytest.raises(UsageError, match=r"too much for a page: got [0-9]+ nodes and transfers in a step, expected at most 3"):
        timing_page(study(), 10)


# --- in the browser -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def opened(browser: Browser, seen: TimeStudy, directory: Path, **window: Any) -> Page:
    (directory / "page.html").write_text(timing_page(seen, 10), "utf-8")
    return browser.open(directory / "page.html", **window)


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """A page; whatever a test does, nothing may stand in the console and nothing be asked of a network."""
    found = opened(browser, study(), tmp_path)
    yield found
    assert found.complaints() == []
    assert {url.partition(":")[0] for url in found.requested_urls()} <= {"file", "data"}


def settled(page: Page) -> None:
    """Until what was asked for is drawn."""
    page.wait("!timing.lanes.waiting")


def run_of(name: str, is_transfer: bool = False) -> str:
    """JavaScript for the number of a node's run, or of a tensor's transfer."""
    return (
        f"[...Array(timing.model.count).keys()].find(span => timing.model.name(span) === {json.dumps(name)} "
        f"&& timing.model.isTransfer(span) === {json.dumps(is_transfer)})"
    )


def middle_of(page: Page, name: str, is_transfer: bool = False) -> tuple[float, float]:
    """Where the middle of a span is in the window."""
    x, y = page.value(
        f"(() => {{ const span = {run_of(name, is_transfer)}, box = timing.lanes.canvas.getBoundingClientRect(); "
        "return [timing.lanes.x((timing.model.start[span] + timing.model.end[span]) / 2) + box.x, "
        "timing.lanes.rowMiddle(2 * span) + box.y]; })()"
    )
    return x, y


def pixel(page: Page, x: float, y: float) -> list[int]:
    """The colour of the lanes at a place of the window."""
    settled(page)
    found: list[int] = page.value(
        f"(() => {{ const {{canvas}} = timing.lanes, box = canvas.getBoundingClientRect(); "
        "const pen = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true}); "
        f"pen.drawImage(canvas, Math.floor({x} - box.x), Math.floor({y} - box.y), 1, 1, 0, 0, 1, 1); "
        "return [...pen.getImageData(0, 0, 1, 1).data.slice(0, 3)]; })()"
    )
    return found


def rgb(colour: str) -> list[int]:
    return [int(colour[start : start + 2], 16) for start in (1, 3, 5)]


def chosen(page: Page) -> str | None:
    """The name of what is selected, and whether it is a transfer."""
    return str(page.value("timing.chosen < 0 ? null : timing.model.name(timing.chosen)"))


@pytest.mark.browser
def test_each_device_has_its_lanes_and_what_ran_is_drawn_on_them(page: Page) -> None:
    headings = page.value("[...document.querySelectorAll('.lane-heading strong')].map(e => e.textContent)")
    assert headings == ["Critical path", "CPU:0", "GPU:0", "GPU:1"]
    labels = page.value("[...document.querySelectorAll('.lane-label')].map(e => e.title)")
    assert labels[-5:] == ["compute", "from host", "to host", "between GPUs", "memory"]
    page.press("c")  # all in full colour
    page.press("a")
    for name, is_transfer in (("tower/a", False), ("tower/b", False), ("tower/b", True), ("aside", False)):
        paint = page.value(f"timing.lanes.paints[timing.lanes.mode.lookOf(2 * {run_of(name, is_transfer)})].full.fill")
        x, y = middle_of(page, name, is_transfer)
        assert pixel(page, x, y + 6) == rgb(paint), name
    lane = rgb(page.value("timing.lanes.colours.lane"))
    x, y = middle_of(page, "tower/a")
    end = page.value("timing.lanes.x(timing.model.seconds) + timing.lanes.canvas.getBoundingClientRect().x")
    assert pixel(page, end - 3, y) == lane
    step = page.text("#headline")
    assert re.fullmatch(r"A step takes [0-9.]+ µs \([0-9.]+ µs to [0-9.]+ µs\); never below [0-9.]+ µs \([0-9]+ %\): .+", step)


@pytest.mark.browser
def test_a_copy_between_two_gpus_is_on_a_lane_of_each(page: Page) -> None:
    rows = page.value(f"timing.lanes.stripsOf(2 * {run_of('tower/b', True)}).map(s => timing.model.lanes[s.lane].name)")
    assert rows == ["GPU:0 between GPUs", "GPU:1 between GPUs"]


@pytest.mark.browser
def test_the_wheel_zooms_where_it_points_down_to_a_single_op(page: Page) -> None:
    x, y = middle_of(page, "tower/a")
    time = page.value(f"timing.model.start[{run_of('tower/a')}]")
    for _ in range(60):
        page.send("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-120)
    settled(page)
    start, end = page.value("[timing.axis.from, timing.axis.to]")
    assert time < start < end < page.value(f"timing.model.end[{run_of('tower/a')}]")
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert page.text("#tip").split()[:2] == ["tower/a", "Neg"]
    page.press("f")
    settled(page)
    assert page.value("[timing.axis.from, timing.axis.to]") == [0, page.value("timing.model.seconds")]


@pytest.mark.browser
def test_two_fingers_zoom_and_a_drag_moves(page: Page) -> None:
    x, y = middle_of(page, "tower/a")
    before = page.value("timing.axis.length")

    def touch(kind: str, *places: float) -> None:
        points = [{"x": place, "y": y, "id": number} for number, place in enumerate(places)]
        page.send("Input.dispatchTouchEvent", type=kind, touchPoints=points)

    touch("touchStart", x - 20)
    touch("touchStart", x - 20, x + 20)
    for apart in (40, 80, 120):
        touch("touchMove", x - apart, x + apart)
    touch("touchEnd")
    assert page.value("timing.axis.length") < before / 2
    start = page.value("timing.axis.from")
    page.send("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
    for by in (10, 40, 80):
        page.send("Input.dispatchMouseEvent", type="mouseMoved", x=x - by, y=y, button="left", buttons=1)
    page.send("Input.dispatchMouseEvent", type="mouseReleased", x=x - 80, y=y, button="left", clickCount=1)
    assert page.value("timing.axis.from") > start
    assert page.value("timing.chosen") == -1


@pytest.mark.browser
def test_a_drag_on_the_ruler_chooses_what_is_seen(page: Page) -> None:
    left, top = page.value(
        "(() => { const b = timing.lanes.canvas.getBoundingClientRect(); return [b.x + timing.lanes.left, b.y]; })()"
    )
    times = page.value(f"[{left + 200}, {left + 300}].map(x => timing.lanes.time(x - {left} + timing.lanes.left))")
    page.send("Input.dispatchMouseEvent", type="mousePressed", x=left + 200, y=top + 8, button="left", clickCount=1)
    for x in (220, 260, 300):
        page.send("Input.dispatchMouseEvent", type="mouseMoved", x=left + x, y=top + 8, button="left", buttons=1)
    page.send("Input.dispatchMouseEvent", type="mouseReleased", x=left + 300, y=top + 8, button="left", clickCount=1)
    assert page.value("[timing.axis.from, timing.axis.to]") == pytest.approx(times)


@pytest.mark.browser
def test_a_click_tells_all_of_a_span_and_what_it_waited_for(page: Page) -> None:
    page.click(*middle_of(page, "tower/b"))
    panel = " ".join(page.text("#panel").split())
    assert panel.startswith("tower/b Add ")
    (run,) = [run for run in study().nodes if run.node == "tower/b"]
    for said in (
        "GPU:0 compute",
        "/job:localhost/replica:0/task:0/device:GPU:0",
        "float[2,262144], float[2,262144] → float[2,262144]",
    ):
        assert said in panel
    assert f"{1e6 * run.seconds:.3g} µs (" in panel
    assert page.text("#waits").split("\n\n")[1:] == [
        "It waited for its input tower/a.",
        "Its launch waited for its input tower/a.",
    ]
    assert page.value("location.hash") == "#tower%2Fb"
    page.value("[...document.querySelectorAll('#panel .items a')].find(a => a.textContent === 'tower/a').click()")
    assert chosen(page) == "tower/a"
    page.press("Escape")
    assert page.value("[timing.chosen, location.hash]") == [-1, ""]


@pytest.mark.browser
def test_the_critical_path_is_lit_up_and_walked_by_keys(page: Page) -> None:
    x, y = middle_of(page, "aside")
    page.press("a")
    pale = pixel(page, x, y + 6)
    assert page.value(f"timing.lanes.onPath.has(2 * {run_of('aside')})") is False
    page.press("c")
    full = pixel(page, x, y + 6)
    ground = rgb(page.value("timing.lanes.colours.surface"))
    assert sum(abs(a - b) for a, b in zip(full, ground, strict=True)) > sum(
        abs(a - b) for a, b in zip(pale, ground, strict=True)
    )
    page.press("c")
    x, y = middle_of(page, "tower/a")
    top = page.value("timing.lanes.strips.find(s => s.kind === 'row').height") / 2
    assert pixel(page, x, y - top + 2) == rgb(page.value("timing.lanes.colours.text"))  # the heavy line above
    walked: list[int] = []
    for _ in range(100):
        page.press("n")
        at = page.value("timing.chosen")
        if walked and at == walked[-1]:
            break
        walked.append(at)
    parts = page.value("timing.model.path.map(([span]) => span)")
    assert walked == [span for number, span in enumerate(parts) if not number or span != parts[number - 1]]
    names = page.value(f"{json.dumps(walked)}.map(span => timing.model.name(span))")
    path = [part.node for part in study().critical_path]
    assert set(names) == set(path)
    page.press("p")
    assert page.value("timing.chosen") == walked[-2]


@pytest.mark.browser
def test_memory_is_drawn_under_the_lanes_of_its_device(page: Page) -> None:
    curve = {c.device: c for c in study().memory}["/job:localhost/replica:0/task:0/device:GPU:0"]
    found = page.value(
        "(() => { const s = timing.lanes.strips.find(s => s.curve && timing.model.short[s.curve.device] === 'GPU:0'); "
        "return [s.y, s.height, [...s.curve.times], s.curve.bytes, s.curve.limit]; })()"
    )
    assert found[2] == pytest.approx([time for time, _ in curve.changes], abs=1e-8)
    assert found[3:] == [[held for _, held in curve.changes], curve.limit]
    peak_time = max(curve.changes, key=lambda change: change[1])[0]
    box = page.value("(() => { const b = timing.lanes.canvas.getBoundingClientRect(); return [b.x, b.y]; })()")
    x = page.value(f"timing.lanes.x({peak_time}) + 3") + box[0]
    lane = rgb(page.value("timing.lanes.colours.lane"))
    page.press("a")
    assert pixel(page, x, box[1] + found[0] + found[1] - 6) != lane
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=box[1] + found[0] + found[1] - 8)
    assert re.match(r"[0-9.]+ MiB in use on GPU:0\s", page.text("#tip"))


@pytest.mark.browser
def test_the_keys_reach_everything(page: Page) -> None:
    page.value("timing.lanes.canvas.focus()")
    page.press("ArrowRight")
    rows = set()
    for _ in range(8):
        page.press("ArrowDown")
        rows.add(page.value("timing.lanes.cursor[0]"))
    assert len(rows) >= 4
    for _ in range(8):
        page.press("ArrowUp")
    first = page.value("timing.chosen")
    page.press("ArrowLeft")
    before = page.value("timing.chosen")
    assert page.value(f"timing.model.start[{before}] < timing.model.start[{first}]")
    page.press("ArrowRight")
    assert page.value("timing.chosen") == first
    page.press("Enter")
    settled(page)
    assert page.value("(timing.model.end[timing.chosen] - timing.model.start[timing.chosen]) / timing.axis.length > 0.2")
    page.press("/")
    page.type("max gpu:1")
    page.press("Enter")
    assert chosen(page) == "other/c"
    assert page.value("document.activeElement === timing.lanes.canvas")
    page.press("w")
    assert chosen(page) != "other/c"
    page.press("?")
    assert page.value("document.getElementById('keys').open")
    page.press("n")  # the dialog has the keys
    page.press("Escape")
    for key, expected in (("-", 1.0), ("+", -1.0)):
        length = page.value("timing.axis.length")
        page.press(key)
        assert (page.value("timing.axis.length") - length) * expected >= 0
    said = page.text("#said")
    assert said.startswith(f"{chosen(page)}, ")
    # every control can be reached with Tab and has a name
    assert page.value("[...document.querySelectorAll('button, select, input, canvas')].every(e => e.tabIndex >= 0)")
    assert page.value(
        "[...document.querySelectorAll('button')].every(e => (e.getAttribute('aria-label') || e.textContent).trim())"
    )


@pytest.mark.browser
def test_tables_lead_to_the_lanes(page: Page) -> None:
    titles = page.value("[...document.querySelectorAll('.card h2')].map(e => e.textContent)")
    assert titles == [
        "Critical path",
        "Nodes that take most",
        "Transfers that take most",
        "Links",
        "Devices",
        "Steps",
        "What is assumed",
    ]
    names = page.value("[...document.querySelectorAll('#nodes td.name a')].map(e => e.textContent)")
    assert names == [row.node for row in dearest_nodes(study(), 10)]
    page.value("document.querySelectorAll('#nodes td.name a')[0].click()")
    assert chosen(page) == names[0]
    assert page.value("document.querySelectorAll('#bounds tbody tr').length") == 0  # the panel tells of the node
    page.press("Escape")
    assert page.value("document.querySelectorAll('#bounds tbody tr').length") == 3


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark(browser: Browser, tmp_path: Path, dark: bool) -> None:
    page = opened(browser, study(), tmp_path, dark=dark)

    def is_dark() -> bool:
        settled(page)
        body: str = page.value("getComputedStyle(document.body).backgroundColor")
        drawn = page.value("timing.lanes.colours.surface")
        levels = {sum(map(int, re.findall(r"\d+", body))) < 384, sum(rgb(drawn)) < 384}
        assert len(levels) == 1
        return levels.pop()

    assert is_dark() is dark
    page.press("t")
    assert is_dark() is not dark
    page.press("t")
    assert is_dark() is dark
    assert page.complaints() == []


@pytest.mark.browser
@pytest.mark.parametrize("width", [1440, 900, 390])
def test_nothing_is_wider_than_the_window(browser: Browser, tmp_path: Path, width: int) -> None:
    page = opened(browser, study(), tmp_path, width=width)
    page.value(f"timing.select({run_of('tower/b', True)})")
    settled(page)
    assert page.value("document.documentElement.scrollWidth") <= width
    assert page.value("timing.lanes.width") > 150
    assert page.complaints() == []


@pytest.mark.browser
def test_where_memory_runs_out_it_is_said_and_the_limit_is_a_line(browser: Browser, tmp_path: Path) -> None:
    seen = study(16)
    assert seen.error is not None
    page = opened(browser, seen, tmp_path)
    assert "OOM when allocating tensor" in page.text("#error")
    assert "too much for" in page.text("#devices")
    place = page.value(
        "(() => { const s = timing.lanes.strips.find(s => s.curve?.limit && s.curve.limit < s.curve.peak);"
        "const b = timing.lanes.canvas.getBoundingClientRect();"
        "return [b.x + timing.lanes.left + 60, b.y + s.y, s.height, s.curve.limit / (1.08 * s.curve.peak)]; })()"
    )
    x, y, height, share = place
    copy = rgb(page.value("timing.lanes.colours.copy"))
    line = y + (height - 4) * (1 - share)
    seen_colours = [pixel(page, x + dx, line + dy) for dx in range(0, 12, 3) for dy in (-1, 0, 1)]
    assert any(sum(abs(a - b) for a, b in zip(colour, copy, strict=True)) < 60 for colour in seen_colours)
    assert page.complaints() == []


@pytest.mark.browser
def test_a_step_of_a_single_node_is_drawn(browser: Browser, tmp_path: Path) -> None:
    page = opened(browser, study(None, text="nodes: [{op: Const, name: a, value: 1.0}]\nfetch: [a]"), tmp_path)
    page.press("n")
    assert chosen(page) == "a"
    assert page.complaints() == []


@pytest.mark.browser
def test_a_step_that_takes_no_time_is_no_error(browser: Browser, tmp_path: Path) -> None:
    page = opened(browser, study(None, text="nodes: [{op: NoOp, name: a}]\nrun: [{fetch: [a]}]"), tmp_path)
    assert page.text("#headline").startswith("A step takes ")
    assert page.complaints() == []


@pytest.mark.browser
def test_many_thousands_of_spans_are_drawn_together_and_found_alone(browser: Browser, tmp_path: Path) -> None:
    entries = "".join(f"  - {{op: Neg, name: n_{i}, inputs: [n_{i - 1}], device: /gpu:0}}\n" for i in range(1, MANY))
    text = f"devices: {{cpu: 1, gpu: 1}}\nnodes:\n  - {{op: Placeholder, name: n_0, dtype: float32, shape: [64]}}\n{entries}"
    page = opened(browser, study(None, text=text + f"fetch: [n_{MANY - 1}]"), tmp_path)
    assert (tmp_path / "page.html").stat().st_size < MAX_MANY_BYTES
    drawn = page.value(
        "(() => { let count = 0; const box = timing.lanes.box, column = timing.lanes.column;"
        "timing.lanes.box = (...a) => { count++; box.apply(timing.lanes, a); };"
        "timing.lanes.column = (...a) => { count++; column.apply(timing.lanes, a); };"
        "timing.lanes.paint(); timing.lanes.box = box; timing.lanes.column = column; return count; })()"
    )
    assert 0 < drawn <= page.value("timing.lanes.width * timing.lanes.strips.length")
    page.press("/")
    page.type("n_7654")
    page.press("Enter")
    assert chosen(page) == "n_7654"
    page.press("Enter")
    settled(page)
    x, y = middle_of(page, "n_7654")
    page.click(x, y)
    assert chosen(page) == "n_7654"
    assert page.complaints() == []


@pytest.mark.browser
def test_two_pictures_may_share_one_axis(page: Page) -> None:
    page.value(
        "(() => { const place = document.createElement('section'); place.className = 'lanes'; place.style.height = '300px';"
        "document.body.append(place);"
        "window.second = new LanesView(place, timing.model, timing.axis, {select() {}, zoomTo() {}, hover() {}});"
        "second.setLooks(timing.lanes.mode, timing.lanes.colours); timing.axis.show(0, timing.model.seconds / 3); })()"
    )
    page.wait("!second.waiting && !timing.lanes.waiting")
    assert page.value("second.time(second.right) / timing.axis.to") == pytest.approx(1, rel=0.01)
    assert page.value("second.painted") >= 1
