"""The page of a step's time: what is in its file, and in a real headless Chromium what a person sees and does."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from functools import cache
from io import BytesIO
from typing import Any

import pytest
from playwright.sync_api import Page

from placesim.core.errors import UsageError
from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.prediction.measured_comparison import ComparedNode, MeasuredComparison, UnmatchedNodes
from placesim.prediction.time_breakdown import TimeStudy, dearest_nodes
from placesim.report.pictures import timing_data
from placesim.report.pictures.timing_data import timing_document
from placesim.report.pictures.timing_page import timing_page
from placesim.report.text.timing import time_document
from placesim.studies.time_study import study_time
from tests.report.conftest import Browser, overflowing, wait

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
    return study_time(load(BytesIO(text.encode()), name, options), options, name, is_traced=True)


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
    with pytest.raises(
        UsageError, match=r"step too large for a page: got [0-9]+ nodes and transfers in a step, expected at most 3"
    ):
        timing_page(study(), 10)


def test_controls_in_a_name_are_seen() -> None:
    page = timing_page(study(name="a\u202eb\x1b.yaml"), 10)
    assert "<title>a\\u202eb\\x1b.yaml" in page
    assert unpacked(page)["graph"] == "a\\u202eb\\x1b.yaml"


# --- in the browser -------------------------------------------------------------------------------------------------


def opened(browser: Browser, seen: TimeStudy, **window: Any) -> Page:
    """The page once its lanes are drawn: before, they have no places."""
    page = browser.open(timing_page(seen, 10), **window)
    settled(page)
    return page


@cache
def study_page() -> str:
    return timing_page(study(), 10)


@pytest.fixture
def page(browser: Browser) -> Page:
    """The page of the study with its whole step, all switches on and nothing selected."""
    page = browser.look(study_page())
    page.evaluate(
        "document.activeElement.blur(); timing.select(NONE); timing.axis.fit(); timing.lanes.container.scrollTop = 0;"
        "for (const name of ['lit', 'arrows']) if (byId(name).ariaPressed === 'false') timing.toggle(name)"
    )
    settled(page)
    return page


def settled(page: Page) -> None:
    """Until what was asked for is drawn."""
    wait(page, "!timing.lanes.waiting")


def run_of(name: str, is_transfer: bool = False) -> str:
    """JavaScript for the number of a node's run, or of a tensor's transfer."""
    return (
        f"[...Array(timing.model.count).keys()].find(span => timing.model.name(span) === {json.dumps(name)} "
        f"&& timing.model.isTransfer(span) === {json.dumps(is_transfer)})"
    )


def middle_of(page: Page, name: str, is_transfer: bool = False) -> tuple[float, float]:
    """Where the middle of a span is in the window."""
    x, y = page.evaluate(
        f"(() => {{ const span = {run_of(name, is_transfer)}, box = timing.lanes.canvas.getBoundingClientRect(); "
        "return [timing.lanes.x((timing.model.start[span] + timing.model.end[span]) / 2) + box.x, "
        "timing.lanes.rowMiddle(2 * span) + box.y]; })()"
    )
    return x, y


def pixel(page: Page, x: float, y: float) -> list[int]:
    """The colour of the lanes at a place of the window."""
    settled(page)
    found: list[int] = page.evaluate(
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
    return str(page.evaluate("timing.chosen < 0 ? null : timing.model.name(timing.chosen)"))


def test_each_device_has_its_lanes_and_what_ran_is_drawn_on_them(page: Page) -> None:
    headings = page.evaluate("[...document.querySelectorAll('.lane-heading strong')].map(e => e.textContent)")
    assert headings == ["Critical path", "CPU:0", "GPU:0", "GPU:1"]
    labels = page.evaluate("[...document.querySelectorAll('.lane-label')].map(e => e.title)")
    assert labels[-5:] == ["compute", "from host", "to host", "between GPUs", "memory"]
    page.keyboard.press("c")  # all in full colour
    page.keyboard.press("a")
    for name, is_transfer in (("tower/a", False), ("tower/b", False), ("tower/b", True), ("aside", False)):
        paint = page.evaluate(f"timing.lanes.paints[timing.lanes.mode.lookOf(2 * {run_of(name, is_transfer)})].full.fill")
        x, y = middle_of(page, name, is_transfer)
        assert pixel(page, x, y + 6) == rgb(paint), name
    lane = rgb(page.evaluate("timing.lanes.colours.lane"))
    x, y = middle_of(page, "tower/a")
    end = page.evaluate("timing.lanes.x(timing.model.seconds) + timing.lanes.canvas.getBoundingClientRect().x")
    assert pixel(page, end - 3, y) == lane
    step = page.inner_text("#headline")
    assert re.fullmatch(r"A step takes [0-9.]+ µs \([0-9.]+ µs to [0-9.]+ µs\); lower bound [0-9.]+ µs \([0-9]+ %\): .+", step)


def test_a_copy_between_two_gpus_is_on_a_lane_of_each(page: Page) -> None:
    rows = page.evaluate(f"timing.lanes.stripsOf(2 * {run_of('tower/b', True)}).map(s => timing.model.lanes[s.lane].name)")
    assert rows == ["GPU:0 between GPUs", "GPU:1 between GPUs"]


def test_the_wheel_zooms_where_it_points_down_to_a_single_op(page: Page) -> None:
    x, y = middle_of(page, "tower/a")
    time = page.evaluate(f"timing.model.start[{run_of('tower/a')}]")
    page.mouse.move(x, y)
    for _ in range(12):
        page.mouse.wheel(0, -600)
    settled(page)
    start, end = page.evaluate("[timing.axis.from, timing.axis.to]")
    assert time < start < end < page.evaluate(f"timing.model.end[{run_of('tower/a')}]")
    page.mouse.move(x, y)
    assert page.inner_text("#tip").split()[:2] == ["tower/a", "Neg"]
    page.keyboard.press("f")
    settled(page)
    assert page.evaluate("[timing.axis.from, timing.axis.to]") == [0, page.evaluate("timing.model.seconds")]


def test_two_fingers_zoom_and_a_drag_moves(page: Page) -> None:
    x, y = middle_of(page, "tower/a")
    before = page.evaluate("timing.axis.length")
    protocol = page.context.new_cdp_session(page)

    def touch(kind: str, *places: float) -> None:
        points = [{"x": place, "y": y, "id": number} for number, place in enumerate(places)]
        protocol.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", x - 20)
    touch("touchStart", x - 20, x + 20)
    for apart in (40, 80, 120):
        touch("touchMove", x - apart, x + apart)
    touch("touchEnd")
    assert page.evaluate("timing.axis.length") < before / 2
    start = page.evaluate("timing.axis.from")
    page.mouse.move(x, y)
    page.mouse.down()
    for by in (10, 40, 80):
        page.mouse.move(x - by, y)
    page.mouse.up()
    assert page.evaluate("timing.axis.from") > start
    assert page.evaluate("timing.chosen") == -1


def test_a_drag_on_the_ruler_chooses_what_is_seen(page: Page) -> None:
    left, top = page.evaluate(
        "(() => { const b = timing.lanes.canvas.getBoundingClientRect(); return [b.x + timing.lanes.left, b.y]; })()"
    )
    times = page.evaluate(f"[{left + 200}, {left + 300}].map(x => timing.lanes.time(x - {left} + timing.lanes.left))")
    page.mouse.move(left + 200, top + 8)
    page.mouse.down()
    for x in (220, 260, 300):
        page.mouse.move(left + x, top + 8)
    page.mouse.up()
    assert page.evaluate("[timing.axis.from, timing.axis.to]") == pytest.approx(times)


def test_a_click_tells_all_of_a_span_and_what_it_waited_for(page: Page) -> None:
    page.mouse.click(*middle_of(page, "tower/b"))
    panel = " ".join(page.inner_text("#panel").split())
    assert panel.startswith("tower/b Add ")
    (run,) = [run for run in study().nodes if run.node == "tower/b"]
    for said in (
        "GPU:0 compute",
        "/job:localhost/replica:0/task:0/device:GPU:0",
        "float[2,262144], float[2,262144] → float[2,262144]",
    ):
        assert said in panel
    assert f"{1e6 * run.seconds:.3g} µs (" in panel
    assert page.inner_text("#waits").split("\n\n")[1:] == [
        "It waited for its input tower/a.",
        "Its launch waited for its input tower/a.",
    ]
    wait(page, "location.hash === '#tower%2Fb'")
    page.evaluate("[...document.querySelectorAll('#panel .items a')].find(a => a.textContent === 'tower/a').click()")
    assert chosen(page) == "tower/a"
    page.keyboard.press("Escape")
    assert page.evaluate("timing.chosen") == -1
    wait(page, "location.hash === ''")
    page.evaluate("location.hash = 'other%2Fc'")
    wait(page, f"timing.chosen === {run_of('other/c')}")
    page.evaluate("new Promise(done => setTimeout(done, ADDRESS_MS))")  # the address is written a moment later
    page.evaluate("location.hash = '%E0'")  # no name of any node
    wait(page, "timing.chosen === -1")


def test_the_critical_path_is_lit_up_and_walked_by_keys(page: Page) -> None:
    x, y = middle_of(page, "aside")
    page.keyboard.press("a")
    pale = pixel(page, x, y + 6)
    assert page.evaluate(f"timing.lanes.onPath.has(2 * {run_of('aside')})") is False
    page.keyboard.press("c")
    full = pixel(page, x, y + 6)
    ground = rgb(page.evaluate("timing.lanes.colours.surface"))
    assert sum(abs(a - b) for a, b in zip(full, ground, strict=True)) > sum(
        abs(a - b) for a, b in zip(pale, ground, strict=True)
    )
    page.keyboard.press("c")
    x, y = middle_of(page, "tower/a")
    top = page.evaluate("timing.lanes.strips.find(s => s.kind === 'row').height") / 2
    assert pixel(page, x, y - top + 2) == rgb(page.evaluate("timing.lanes.colours.text"))  # the heavy line above
    walked: list[int] = []
    for _ in range(100):
        page.keyboard.press("n")
        at = page.evaluate("timing.chosen")
        if walked and at == walked[-1]:
            break
        walked.append(at)
    parts = page.evaluate("timing.model.path.map(([span]) => span)")
    assert walked == [span for number, span in enumerate(parts) if not number or span != parts[number - 1]]
    names = page.evaluate(f"{json.dumps(walked)}.map(span => timing.model.name(span))")
    path = [part.node for part in study().critical_path]
    assert set(names) == set(path)
    page.keyboard.press("p")
    assert page.evaluate("timing.chosen") == walked[-2]


def test_memory_is_drawn_under_the_lanes_of_its_device(page: Page) -> None:
    curve = {c.device: c for c in study().memory}["/job:localhost/replica:0/task:0/device:GPU:0"]
    found = page.evaluate(
        "(() => { const s = timing.lanes.strips.find(s => s.curve && timing.model.short[s.curve.device] === 'GPU:0'); "
        "return [s.y, s.height, [...s.curve.times], s.curve.bytes, s.curve.limit]; })()"
    )
    assert found[2] == pytest.approx([time for time, _ in curve.changes], abs=1e-8)
    assert found[3:] == [[held for _, held in curve.changes], curve.limit]
    # the label and the table have the same peak, and what the step holds beside it where that differs
    texts = page.evaluate("timing.model.memoryTexts(timing.model.short.indexOf('GPU:0'))")
    label = page.evaluate(
        "[...document.querySelectorAll('.lane-label.curve')].map(e => [...e.children].map(c => c.textContent))"
    )
    assert [" ".join(filter(None, (texts["peak"], texts["limit"]))), *filter(None, (texts["own"],))] in label
    cell = page.evaluate(
        "document.querySelectorAll('#devices tbody tr')[timing.model.short.indexOf('GPU:0')].lastChild.innerText.split('\\n')"
    )
    assert cell == [part for part in (texts["peak"], texts["limit"], texts["own"]) if part]
    peak_time = max(curve.changes, key=lambda change: change[1])[0]
    box = page.evaluate("(() => { const b = timing.lanes.canvas.getBoundingClientRect(); return [b.x, b.y]; })()")
    x = page.evaluate(f"timing.lanes.x({peak_time}) + 3") + box[0]
    lane = rgb(page.evaluate("timing.lanes.colours.lane"))
    page.keyboard.press("a")
    assert pixel(page, x, box[1] + found[0] + found[1] - 6) != lane
    page.mouse.move(x, box[1] + found[0] + found[1] - 8)
    assert re.match(r"[0-9.]+ MiB in use on GPU:0\s", page.inner_text("#tip"))


def test_the_keys_reach_everything(page: Page) -> None:
    page.evaluate("timing.lanes.canvas.focus()")
    page.keyboard.press("ArrowRight")
    rows = set()
    for _ in range(8):
        page.keyboard.press("ArrowDown")
        rows.add(page.evaluate("timing.lanes.cursor[0]"))
    assert len(rows) >= 4
    for _ in range(8):
        page.keyboard.press("ArrowUp")
    first = page.evaluate("timing.chosen")
    page.keyboard.press("ArrowLeft")
    before = page.evaluate("timing.chosen")
    assert page.evaluate(f"timing.model.start[{before}] < timing.model.start[{first}]")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("timing.chosen") == first
    page.keyboard.press("Enter")
    settled(page)
    assert page.evaluate("(timing.model.end[timing.chosen] - timing.model.start[timing.chosen]) / timing.axis.length > 0.2")
    page.keyboard.press("/")
    page.keyboard.insert_text("max gpu:1")
    page.keyboard.press("Enter")
    assert chosen(page) == "other/c"
    assert page.evaluate("document.activeElement === timing.lanes.canvas")
    page.keyboard.press("w")
    assert chosen(page) != "other/c"
    page.keyboard.press("?")
    assert page.evaluate("document.getElementById('keys').open")
    page.keyboard.press("n")  # the dialog has the keys
    page.keyboard.press("Escape")
    for key, expected in (("-", 1.0), ("+", -1.0)):
        length = page.evaluate("timing.axis.length")
        page.keyboard.press(key)
        assert (page.evaluate("timing.axis.length") - length) * expected >= 0
    said = page.inner_text("#said")
    assert said.startswith(f"{chosen(page)}, ")
    # every control can be reached with Tab and has a name
    assert page.evaluate("[...document.querySelectorAll('button, select, input, canvas')].every(e => e.tabIndex >= 0)")
    assert page.evaluate(
        "[...document.querySelectorAll('button')].every(e => (e.getAttribute('aria-label') || e.textContent).trim())"
    )


def test_tables_lead_to_the_lanes(page: Page) -> None:
    titles = page.evaluate("[...document.querySelectorAll('.card h2')].map(e => e.textContent)")
    assert titles == [
        "Critical path",
        "Slowest nodes",
        "Slowest transfers",
        "Links",
        "Devices",
        "Steps",
        "Assumptions",
    ]
    names = page.evaluate("[...document.querySelectorAll('#nodes td.name a')].map(e => e.textContent)")
    assert names == [row.node for row in dearest_nodes(study(), 10)]
    page.evaluate("document.querySelectorAll('#nodes td.name a')[0].click()")
    assert chosen(page) == names[0]
    assert page.evaluate("document.querySelectorAll('#bounds tbody tr').length") == 0  # the panel tells of the node
    page.keyboard.press("Escape")
    assert page.evaluate("document.querySelectorAll('#bounds tbody tr').length") == 3


def test_a_measured_step_stands_beside_the_predicted_one(browser: Browser) -> None:
    seen = study()
    device = seen.devices[-1].device
    node = ComparedNode("other/c", "_Fused\x1b", device, 1e-3, 1e-3, 1e-3, 4e-3, ("x",))
    group = UnmatchedNodes("measured", "not in the graph", 4, 1e-3, ("p", "q", "r"))
    page = opened(browser, replace(seen, comparison=MeasuredComparison("a timeline", 3, 1e-3, 2e-3, 5e-3, (node,), (group,))))
    assert "; measured 2 ms; " in page.inner_text("#headline")
    texts = page.evaluate("[...document.querySelectorAll('#measured p')].map(e => e.innerText)")
    assert texts == [
        "Measured 2 ms in a timeline, the median of 3 steps; predicted 0.5 \u00d7.",
        "80 % of the measured time of nodes has a prediction",
        "fused or rewritten: 1 measured node for 2 nodes of the graph",
        "4 measured: not in the graph (p, q, r, ...)",
    ]
    cells = "[...document.querySelectorAll('ID tbody td')].map(e => e.innerText)"
    assert page.evaluate(cells.replace("ID", "#measured")) == ["_Fused\\x1b", "1", "1 ms", "4 ms", "0.25 \u00d7", ""]
    assert page.evaluate(cells.replace("ID", "#measured-nodes"))[1:] == ["1 ms", "4 ms", "0.25 \u00d7", ""]
    page.evaluate("document.querySelector('#measured-nodes td.name a').click()")
    assert chosen(page) == "other/c"
    assert "4 ms with 1 other node" in page.inner_text("#panel")


def test_what_would_help_most_stands_beside_the_bounds(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    helps = [{"kind": "link", "what": "GPU:0 PCIe in", "seconds": 1e-4, "share": 0.75}]
    monkeypatch.setattr(timing_data, "time_document", lambda seen: time_document(seen) | {"helps": helps})
    page = opened(browser, study())
    cells = page.evaluate("[...document.querySelectorAll('#helps tbody td')].map(e => e.innerText)")
    assert cells == ["GPU:0 PCIe in link", "100 µs", "75 %", ""]


def test_a_printed_page_has_the_lanes_and_the_tables_but_no_controls(page: Page) -> None:
    page.emulate_media(media="print")
    settled(page)
    seen = "getComputedStyle(document.querySelector('{}')).display !== 'none'"
    assert page.evaluate(seen.format("#lanes canvas"))
    assert page.evaluate(seen.format("#cards"))
    assert not page.evaluate(seen.format(".buttons"))
    assert not page.evaluate(seen.format("#finder"))


def test_light_and_dark(browser: Browser) -> None:
    page = opened(browser, study(), dark=True)

    def is_dark() -> bool:
        settled(page)
        body: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        drawn = page.evaluate("timing.lanes.colours.surface")
        levels = {sum(map(int, re.findall(r"\d+", body))) < 384, sum(rgb(drawn)) < 384}
        assert len(levels) == 1
        return levels.pop()

    assert is_dark()
    browser.change(dark=False)
    assert not is_dark()
    page.keyboard.press("t")
    assert is_dark()
    page.keyboard.press("t")
    assert not is_dark()


def test_nothing_is_wider_than_the_window(browser: Browser) -> None:
    page = opened(browser, study(), width=390)
    page.evaluate(f"timing.select({run_of('tower/b', True)})")
    for width in (390, 900, 1440):
        browser.change(width)
        settled(page)
        assert overflowing(page) == []
        assert page.evaluate("timing.lanes.width") > 150


def test_where_memory_runs_out_it_is_said_and_the_limit_is_a_line(browser: Browser) -> None:
    seen = study(16)
    assert seen.error is not None
    page = opened(browser, seen)
    assert "OOM when allocating tensor" in page.inner_text("#error")
    assert "over" in page.inner_text("#devices")
    place = page.evaluate(
        "(() => { const s = timing.lanes.strips.find(s => s.curve?.limit && s.curve.limit < s.curve.peak);"
        "const b = timing.lanes.canvas.getBoundingClientRect();"
        "return [b.x + timing.lanes.left + 60, b.y + s.y, s.height, s.curve.limit / (1.08 * s.curve.peak)]; })()"
    )
    x, y, height, share = place
    copy = rgb(page.evaluate("timing.lanes.colours.copy"))
    line = y + (height - 4) * (1 - share)
    seen_colours = [pixel(page, x + dx, line + dy) for dx in range(0, 12, 3) for dy in (-1, 0, 1)]
    assert any(sum(abs(a - b) for a, b in zip(colour, copy, strict=True)) < 60 for colour in seen_colours)


def test_a_step_of_a_single_node_is_drawn(browser: Browser) -> None:
    page = opened(browser, study(None, text="nodes: [{op: Const, name: a, value: 1.0}]\nfetch: [a]"))
    page.keyboard.press("n")
    assert chosen(page) == "a"


def test_a_step_that_takes_no_time_is_no_error(browser: Browser) -> None:
    page = opened(browser, study(None, text="nodes: [{op: NoOp, name: a}]\nrun: [{fetch: [a]}]"))
    assert page.inner_text("#headline").startswith("A step takes ")


def test_many_thousands_of_spans_are_drawn_together_and_found_alone(browser: Browser) -> None:
    entries = "".join(f"  - {{op: Neg, name: n_{i}, inputs: [n_{i - 1}], device: /gpu:0}}\n" for i in range(1, MANY))
    text = f"devices: {{cpu: 1, gpu: 1}}\nnodes:\n  - {{op: Placeholder, name: n_0, dtype: float32, shape: [64]}}\n{entries}"
    shown = timing_page(study(None, text=text + f"fetch: [n_{MANY - 1}]"), 10)
    assert len(shown.encode()) < MAX_MANY_BYTES
    page = browser.open(shown)
    settled(page)
    drawn = page.evaluate(
        "(() => { let count = 0; const box = timing.lanes.box, column = timing.lanes.column;"
        "timing.lanes.box = (...a) => { count++; box.apply(timing.lanes, a); };"
        "timing.lanes.column = (...a) => { count++; column.apply(timing.lanes, a); };"
        "timing.lanes.paint(); timing.lanes.box = box; timing.lanes.column = column; return count; })()"
    )
    assert 0 < drawn <= page.evaluate("timing.lanes.width * timing.lanes.strips.length")
    page.keyboard.press("/")
    page.keyboard.insert_text("n_7654")
    page.keyboard.press("Enter")
    assert chosen(page) == "n_7654"
    page.keyboard.press("Enter")
    settled(page)
    x, y = middle_of(page, "n_7654")
    page.mouse.click(x, y)
    assert chosen(page) == "n_7654"


def test_two_pictures_may_share_one_axis(page: Page) -> None:
    page.evaluate(
        "(() => { const place = document.createElement('section'); place.className = 'lanes'; place.style.height = '300px';"
        "document.body.append(place);"
        "window.second = new LanesView(place, timing.model, timing.axis, {select() {}, zoomTo() {}, hover() {}});"
        "second.setLooks(timing.lanes.mode, timing.lanes.colours); timing.axis.show(0, timing.model.seconds / 3); })()"
    )
    wait(page, "!second.waiting && !timing.lanes.waiting")
    assert page.evaluate("second.time(second.right) / timing.axis.to") == pytest.approx(1, rel=0.01)
    assert page.evaluate("second.painted") >= 1
