"""The page that compares placements: what is in its file, and in a real headless Chromium what a person sees and does."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from dataclasses import replace
from functools import cache
from io import BytesIO
from typing import Any

import pytest
from playwright.sync_api import Page

from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.planning.graphs.plan_comparison import (
    ANNOTATED,
    DEFAULT,
    PLANNED,
    Aim,
    PlanMeasure,
    PlanStudy,
    SimulatedPlacement,
)
from placesim.planning.portfolio import Effort
from placesim.report.pictures import comparison_page as comparing
from placesim.report.pictures.comparison_page import Comparison, comparison_page, plan_page
from placesim.report.pictures.timing_data import span_count
from placesim.studies.plan_study import study_plan
from placesim.studies.time_study import study_time
from tests.report.conftest import Browser, overflowing, wait

BRANCHES = """
devices: {cpu: 1, gpu: {count: 2, model: Tesla V100-SXM2-16GB}}
nodes:
- {op: Placeholder, name: x, dtype: float32, shape: [4096, 4096]}
- {op: MatMul, name: left/first, inputs: [x, x]}
- {op: MatMul, name: left/second, inputs: [left/first, x]}
- {op: MatMul, name: right/first, inputs: [x, x], attrs: {transpose_a: true}}
- {op: MatMul, name: right/second, inputs: [right/first, x]}
- {op: Add, name: sum, inputs: [left/second, right/second]}
fetch: [sum]
"""


@cache
def plan(name: str = "g.yaml", sought: PlanMeasure = PlanMeasure.LATENCY, text: str = BRANCHES) -> PlanStudy:
    options = make_options({})
    aim = Aim(sought, is_traced=True)
    return study_plan(load(BytesIO(text.encode()), name, options), options, name, Effort(evaluations=300, jobs=1), aim=aim)


def written(study: PlanStudy) -> str:
    page = plan_page(study)
    assert page is not None
    return page


def unpacked(page: str, name: str = "data") -> dict[str, Any]:
    found = re.search(rf'<script type="text/plain" id="packed-{name}">([^<]*)</script>', page)
    assert found is not None
    document: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return document


# --- the file -------------------------------------------------------------------------------------------------------


def test_a_page_needs_no_network_and_is_the_same_each_time() -> None:
    page = written(plan())
    assert set(re.findall(r"""(?:src|href)=["']([^"'$]*)""", page)) <= {"data:,", "#"}
    assert set(re.findall(r"https?://[^\s\"'<)]*", page)) <= {"http://www.w3.org/2000/svg"}
    assert page == written(plan())


def test_without_scripts_there_is_a_table() -> None:
    found = re.search(r"<noscript>(.*?)</noscript>", html.unescape(written(plan())), re.DOTALL)
    assert found is not None
    rows = [re.findall(r"<td>([^<]*)</td>", row) for row in found[1].split("</tr>")]
    assert [row[0] for row in rows if row] == [placed.label for placed in plan().placements]
    assert all(re.fullmatch(r"[0-9.]+ [mnu]?s", row[1]) for row in rows if row and row[5] == "-")


def test_a_name_cannot_become_markup() -> None:
    page = written(plan("</script><img src=x>.yaml"))
    assert "<img src=x" not in page
    assert unpacked(page)["graph"] == "</script><img src=x>.yaml"


def test_steps_share_the_numbers_of_names() -> None:
    page, study = written(plan()), plan()
    data = unpacked(page)
    for number, placed in enumerate(study.placements):
        assert placed.study is not None
        step = unpacked(page, f"step-{number}")
        assert "names" not in step
        names = sorted(data["names"][name] for name in step["spans"]["name"])
        assert names == sorted([run.node for run in placed.study.nodes] + [run.tensor for run in placed.study.transfers])


def test_what_is_shown_first_is_the_graph_s_own_placement_and_the_plan() -> None:
    study = plan()
    data = unpacked(written(study))
    labels = [placed["label"] for placed in data["placements"]]
    assert [labels[data["before"]], labels[data["after"]]] == [DEFAULT, PLANNED]
    assert data["plan"]["moves_from"] == data["before"]
    annotated = plan(text=BRANCHES.replace("name: sum,", "name: sum, device: /gpu:1,"))
    assert annotated.before is not None
    assert annotated.before.label == ANNOTATED


def test_a_plan_by_scope_has_its_edits_and_the_curve() -> None:
    options = make_options({})
    aim = Aim(is_traced=True, by=None)
    loaded = load(BytesIO(BRANCHES.encode()), "g.yaml", options)
    data = unpacked(written(study_plan(loaded, options, "g.yaml", Effort(evaluations=100, jobs=1), aim=aim)))
    assert data["plan"]["edits"] == 1
    assert [point["changes"] for point in data["plan"]["curve"]] == [0, 1]
    assert data["plan"]["curve"][1]["edits"][0]["device"] == "GPU:1"
    assert unpacked(written(plan()))["plan"]["curve"] == []


def test_a_placement_for_which_there_is_no_room_has_no_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    study = plan()
    assert study.plan is not None
    assert study.plan.study is not None
    monkeypatch.setattr(comparing, "MAX_SPANS", span_count(study.plan.study))
    page = written(study)
    data = unpacked(page)
    assert [placed["label"] for placed in data["placements"] if placed["has_lanes"]] == [PLANNED]
    assert page.count('id="packed-step-') == 1


# --- in the browser -------------------------------------------------------------------------------------------------


@pytest.fixture
def page(browser: Browser) -> Page:
    """The page of a plan with the two steps that it shows first, nothing selected, in light colours."""
    page = browser.look(written(plan()))
    page.evaluate(
        "document.activeElement.blur(); if (comparison.theme.isDark) comparison.theme.turn(); comparison.selectNothing();"
        "comparison.latest = 1; comparison.show({before: comparison.data.before, after: comparison.data.after})"
    )
    settled(page)
    return page


def opened(browser: Browser, study: PlanStudy, **window: Any) -> Page:
    """The page of a plan once its lanes are drawn: before, they have no places."""
    page = browser.open(written(study), **window)
    settled(page)
    return page


def settled(page: Page) -> None:
    wait(page, "comparison.lanes.every(lanes => !lanes.waiting)")


def seen(page: Page) -> list[float]:
    found: list[float] = page.evaluate("[comparison.axis.from, comparison.axis.to]")
    return found


def test_both_steps_are_on_one_axis_and_move_together(page: Page) -> None:
    study = plan()
    assert study.before is not None
    assert study.before.study is not None
    assert seen(page) == [0, pytest.approx(study.before.seconds)]
    where = "comparison.lanes.map(lanes => lanes.x(1e-2) + lanes.canvas.getBoundingClientRect().x)"
    left, right = page.evaluate(where)
    assert left == right
    # a wheel over the one below moves the one above
    x, y = page.evaluate(
        "(() => { const b = comparison.lanes[1].canvas.getBoundingClientRect(); return [b.x + 400, b.y + 40]; })()"
    )
    page.mouse.move(x, y)
    for _ in range(10):
        page.mouse.wheel(0, -120)
    settled(page)
    start, end = seen(page)
    assert 0 < start < end < study.before.seconds
    left, right = page.evaluate(where)
    assert left == right
    page.keyboard.press("f")
    assert seen(page) == [0, pytest.approx(study.before.seconds)]


def test_the_head_and_the_tables_tell_what_the_study_does(page: Page) -> None:
    study = plan()
    assert study.before is not None
    assert study.before.study is not None
    head = page.inner_text("#headline")
    less = round(100 * (1 - study.value / study.before.seconds))
    assert re.match(
        rf"A step takes [0-9.]+ ms instead of [0-9.]+ ms, {less} % less \(the intervals overlap, .*\)\. (Lower bound|Optimal)",
        head,
    )
    assert study.bound.why in head
    rows = page.evaluate("[...document.querySelectorAll('#placements tbody tr')].map(r => r.cells[0].firstChild.textContent)")
    assert rows == [placed.label for placed in study.placements]
    assert page.evaluate("document.querySelector('#placements tr.plan').cells[0].textContent") == f"{PLANNED}after"
    moves = page.evaluate("[...document.querySelectorAll('#moves tbody a')].map(a => a.textContent)")
    assert moves == [move.nodes[0] for move in study.moves]
    held = page.evaluate("[...document.querySelectorAll('#memory tbody tr')].map(r => r.cells[0].textContent)")
    assert held == ["CPU:0", "GPU:0", "GPU:1"]


def test_a_search_that_ended_early_is_told(browser: Browser) -> None:
    page = opened(browser, replace(plan(), ended_early="the search ended after 1 second: a larger `--seconds` lets it go on"))
    assert page.inner_text("#headline").endswith(". The search ended after 1 second: a larger `--seconds` lets it go on.")


def test_what_moves_is_lit_up_in_both_and_a_node_is_told_of_both(page: Page) -> None:
    (first, *_) = [move.nodes[0] for move in plan().moves]
    page.evaluate("document.querySelector('#moves tbody a').focus()")
    marked = "comparison.lanes.map(l => l.marked && [...new Set([...l.marked].map(box => l.model.name(spanOf(box))))])"
    assert page.evaluate(marked) == [[first], [first]]
    page.evaluate("document.querySelector('#moves tbody a').blur()")
    assert page.evaluate(marked) == [None, None]
    page.evaluate("document.querySelector('#moves tbody a').click()")
    assert page.evaluate(marked) == [[first], [first]]
    assert page.inner_text("#panel .title") == first
    page.evaluate("document.querySelector('#panel .items a').click()")
    assert page.evaluate(marked) == [None, None]
    devices = page.evaluate("[...document.querySelectorAll('#panel tbody tr')[0].cells].map(c => c.textContent)")
    assert devices == ["on", "GPU:0", "GPU:1"]
    assert page.evaluate("comparison.lanes.map(l => l.model.name(l.chosen))") == [first, first]
    wait(page, f"location.hash === '#' + encodeURIComponent({json.dumps(first)})")
    page.keyboard.press("Escape")
    assert page.inner_text("#panel .title") == "Both steps"
    assert page.evaluate("comparison.lanes.map(l => l.chosen)") == [-1, -1]


def test_any_two_can_be_chosen_and_change_places(page: Page) -> None:
    placements = plan().placements
    number = [placed.label for placed in placements].index("all on CPU:0")
    page.evaluate(f"byId('before').value = '{number}'; byId('before').dispatchEvent(new Event('change'))")
    wait(page, f"comparison.shown.before === {number}")
    assert seen(page)[1] == pytest.approx(placements[number].seconds)
    assert page.inner_text("#headline").startswith("A step takes")
    moved = page.evaluate("comparison.moves.map(m => [m.label, m.source])")
    assert all(source.startswith("CPU") for _, source in moved)
    assert moved
    page.keyboard.press("x")
    wait(page, f"comparison.shown.after === {number}")
    assert page.evaluate("comparison.moves.every(m => m.target.startsWith('CPU'))")
    assert "times" in page.inner_text("#time-after")
    assert page.evaluate("document.querySelectorAll('.lanes').length") == 2


def test_keys_walk_along_the_path_of_the_side_where_the_user_is(page: Page) -> None:
    page.keyboard.press("n")
    first = page.evaluate("comparison.chosen.span")
    assert page.evaluate("comparison.pair[1].path[0][0]") == first
    page.keyboard.press("n")
    assert page.evaluate("comparison.chosen.span") != first
    page.evaluate("comparison.lanes[0].canvas.focus()")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("comparison.latest") == 0
    page.keyboard.press("/")
    page.keyboard.insert_text("right/second")
    page.keyboard.press("Enter")
    assert page.inner_text("#panel .title") == "right/second"
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"


def test_nothing_is_wider_than_the_window_or_lies_on_another(browser: Browser) -> None:
    page = opened(browser, plan("a-graph-with-a-rather-long-name-of-its-own.yaml"), width=360)
    parts = "header > *, .side-head > *, #cards > *, #headline, #legend, .lanes, #panel"
    for width, dark in ((360, False), (768, True), (1280, False), (1920, True)):
        browser.change(width, dark=dark)
        settled(page)
        assert overflowing(page) == []
        boxes = page.evaluate(
            f"[...document.querySelectorAll({json.dumps(parts)})].map(e => [e.id || e.tagName, e.getBoundingClientRect()])"
            ".filter(([, b]) => b.width && b.height)"
            ".map(([id, b]) => [id, b.left, b.top + scrollY, b.right, b.bottom + scrollY])"
        )
        for number, (name, left, top, right, bottom) in enumerate(boxes):
            assert right <= width + 0.5, name
            for other, *box in boxes[number + 1 :]:
                apart = right <= box[0] + 0.5 or box[2] <= left + 0.5 or bottom <= box[1] + 0.5 or box[3] <= top + 0.5
                assert apart, (name, other)


def test_no_heading_lies_on_the_end_of_the_shorter_step(browser: Browser) -> None:
    page = opened(browser, plan(), width=420)
    page.evaluate(
        """globalThis.written = [];
        const { fillText } = CanvasRenderingContext2D.prototype;
        CanvasRenderingContext2D.prototype.fillText = function (text, x, ...rest) {
          const heading = this.canvas.parentElement.querySelector(".lane-heading");
          if (text.startsWith("ends at")) written.push(x - heading.offsetWidth);
          fillText.call(this, text, x, ...rest);
        };
        byId("before").value = "0";
        byId("before").dispatchEvent(new Event("change"))"""
    )
    wait(page, "comparison.shown.before === 0 && written.length")
    assert page.evaluate("Math.min(...written)") >= 8


def test_where_nothing_fits_that_is_said(browser: Browser) -> None:
    small = BRANCHES.replace("V100-SXM2-16GB", "V100-SXM2-16GB, memory: 400MiB").replace(
        "op: MatMul", "device: /gpu:0, op: MatMul"
    )
    study = plan(text=small)
    assert study.plan is None
    page = opened(browser, study)
    assert page.inner_text("#error").startswith("No plan fits: ")
    assert "does not fit" in page.inner_text("#placements")


@pytest.mark.parametrize(
    ("sought", "words"), [(PlanMeasure.THROUGHPUT, "The busiest device"), (PlanMeasure.MEMORY, "Peak memory")]
)
def test_other_objectives_are_told_in_their_words(browser: Browser, sought: PlanMeasure, words: str) -> None:
    page = opened(browser, plan(sought=sought))
    assert page.inner_text("#headline").startswith(words)


def test_two_graphs_are_compared_in_the_same_way(browser: Browser) -> None:
    def simulated(name: str, model: str) -> SimulatedPlacement:
        options = make_options({"gpu_model": model})
        data = BRANCHES.encode()
        return SimulatedPlacement(name, study_time(load(BytesIO(data), "g.yaml", options), options, name, is_traced=True))

    found = [simulated("a", "Tesla K80"), simulated("b", "Tesla V100-SXM2-16GB")]
    page = browser.open(comparison_page(Comparison("g.yaml", found, 0, 1)))
    assert re.fullmatch(r"A step takes .* instead of .*, .* less: b compared with a\.", page.inner_text("#headline"))
    assert "None: every node keeps its device." in page.inner_text("#moves")
