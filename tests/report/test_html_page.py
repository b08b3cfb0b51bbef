"""The HTML page: what is in its file, and in a real headless Chromium what a person sees and does."""

from __future__ import annotations

import base64
import gzip
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from placesim.cli.graph_arguments import open_subject
from placesim.inspection.byte_amounts import readable_seconds
from placesim.inspection.explaining.paragraphs import NODE, Paragraphs
from placesim.inspection.picturing.details import device_tasks
from placesim.inspection.picturing.drawing import copies_by_edge
from placesim.inspection.picturing.lanes import arrange_lanes
from placesim.inspection.picturing.order import box_places
from placesim.inspection.picturing.picture import Picture, picture_of
from placesim.inspection.picturing.scopes import Scope, page_tree
from placesim.inspection.written_placement import baseline_snapshot
from placesim.report.palette import PATTERNS, device_colour, device_pattern
from placesim.report.pictures import comparison_page, memory_page, studio_page, sweep_page, timing_page
from placesim.report.pictures.html_page import LIBRARIES, SHELL, html_page
from placesim.report.pictures.page_data import page_document
from placesim.studies.snapshots import DryRunNeed, DryRunNeeds
from tests.inspection.pictures import picture, snapshot, towers_text
from tests.report.conftest import Browser, overflowing, wait

SHELLS = (SHELL, timing_page.SHELL, memory_page.SHELL, sweep_page.SHELL, comparison_page.SHELL, studio_page.SHELL)
ASSETS = Path(__file__).parent.parent.parent / "placesim" / "report" / "assets"
TOWERS = towers_text(2, 2)
CY = "document.getElementById('graph')._cyreg.cy"
"""The drawing, which Cytoscape keeps at its element."""
GRAPHS = ASSETS.parent.parent.parent / "graphs"
SMALL = "cifar10-towers.yaml"
"""A graph of so few boxes that there is room for the bytes on links."""
LARGE_NODES = 20_000
MAX_LARGE_BYTES = 2_500_000


def packed(page: str, name: str) -> str:
    """What a packed element of a page holds."""
    found = re.search(rf'<script type="text/plain" id="packed-{name}">([^<]*)</script>', page)
    assert found is not None
    return gzip.decompress(base64.b64decode(found[1])).decode()


# --- the file -------------------------------------------------------------------------------------------------------


def test_a_page_holds_its_libraries_and_its_data() -> None:
    seen = picture(TOWERS, gpu=2)
    page = html_page(seen)
    for name, file in LIBRARIES.items():
        assert packed(page, name) == (ASSETS / file).read_text()
    assert json.loads(packed(page, "data")) == page_document(seen)


def test_a_page_needs_no_network() -> None:
    page = html_page(picture(TOWERS, gpu=2))
    outside = re.sub(r"<!--.*?-->", "", page, count=1, flags=re.S)
    assert set(re.findall(r"""(?:src|href)=["']([^"']*)""", outside)) == {"data:,"}
    assert set(re.findall(r"https?://[^\s\"'<)]*", outside)) <= {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in page


def test_the_same_picture_gives_the_same_bytes() -> None:
    assert html_page(picture(TOWERS, gpu=2)) == html_page(picture(TOWERS, gpu=2))


def test_every_vendored_library_has_its_licence_and_every_asset_is_used() -> None:
    licences = {"LICENSE.cytoscape", "LICENSE.elkjs.md", "LICENSE.codemirror"}
    assert {path.name for path in ASSETS.iterdir()} == {
        *licences,
        *LIBRARIES.values(),
        *(asset for shell in SHELLS for asset in shell.assets()),
    }


def test_a_name_cannot_become_markup() -> None:
    page = html_page(picture("nodes: [{op: NoOp, name: a}]", name='<img src=x>"&.yaml'))
    assert "<img" not in page
    assert "<title>&lt;img src=x&gt;&quot;&amp;.yaml" in page


def test_proofs_are_kept_once_each() -> None:
    document = page_document(picture(towers_text(4, 40), gpu=4))
    assert len(document["proofs"]["paragraphs"]) < document["nodes"]["name"].__len__()
    used = {number for proof in document["proofs"]["proofs"] for number in proof}
    assert used == set(range(len(document["proofs"]["paragraphs"])))


MEMORY = """
devices: {cpu: 1, gpu: {count: 2, memory: 6MiB}}
config: {gpu_options: {experimental: {gpu_system_memory_size_in_mb: 2}}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 262144]}
  - {op: Neg, name: s/a, inputs: [x], device: /gpu:0}
  - {op: Add, name: s/b, inputs: [s/a, x], device: /gpu:0}
  - {op: Neg, name: c, inputs: [s/b], device: /gpu:1}
fetch: [c]
"""
MIB = 1 << 20


def with_memory(tmp_path: Path, batch: int | None = None) -> Picture:
    (tmp_path / "m.yaml").write_text(MEMORY)
    sizes = {} if batch is None else {"batch": batch}
    return picture_of(open_subject(str(tmp_path / "m.yaml"), sizes, wishes=DryRunNeeds(memory=DryRunNeed.KNOWN)))


def test_what_is_held_at_a_peak_adds_up_to_it(tmp_path: Path) -> None:
    seen = with_memory(tmp_path, 4)
    memory = page_document(seen)["memory"]
    names = [node.name for node in seen.nodes]
    peaks = {device: (peak, limit, names[node]) for device, peak, limit, node, _ in memory["peaks"]}
    assert peaks[1] == (8 * MIB + 1280, 4 * MIB, "s/a")
    assert peaks[2] == (4 * MIB + 1280, 4 * MIB, "c")
    # what is fed, and what arrives from another device, counts as the node that it comes from
    held = [(names[node], device, size) for node, device, size in memory["held"]]
    assert held == [("c", 0, 4 * MIB), ("x", 1, 4 * MIB), ("s/a", 1, 4 * MIB), ("s/b", 2, 4 * MIB)]


def test_a_picture_without_memory_has_none(tmp_path: Path) -> None:
    assert page_document(picture(TOWERS, gpu=2))["memory"] is None
    memory = page_document(with_memory(tmp_path))["memory"]
    assert (memory["peaks"], memory["held"]) == ([], [])
    assert "x [?,262144]" in memory["note"]


def test_a_proof_ends_with_what_the_node_takes(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(MEMORY)
    found = open_subject(str(tmp_path / "m.yaml"), {"batch": 4}, wishes=DryRunNeeds(costs=DryRunNeed.KNOWN))
    assert found.costs is not None
    seen = picture_of(found)
    proofs = page_document(seen)["proofs"]
    last = {
        node.name: proofs["paragraphs"][proofs["proofs"][proof][-1]]
        for node, proof in zip(seen.nodes, proofs["of_node"], strict=True)
    }
    # x is fed: no step runs it
    assert {name: paragraph[0] for name, paragraph in last.items()} == {"x": "Chosen"} | dict.fromkeys(
        ("s/a", "s/b", "c"), "Cost"
    )
    for name in ("s/a", "s/b", "c"):
        cost = found.costs.of(name, ())
        assert cost is not None
        assert cost.here is not None
        assert last[name][1].startswith(f"{readable_seconds(cost.here.seconds)} (")
        assert f"per run of step 0, bound by {cost.here.bound_text}." in last[name][1]


# --- in the browser -------------------------------------------------------------------------------------------------


def opened(browser: Browser, seen: Picture, dark: bool = False) -> Page:
    """A picture's page in the browser, arranged by scope."""
    return by_scope(browser.open(html_page(seen), dark=dark))


def by_scope(page: Page) -> Page:
    if page.evaluate("document.getElementById('arrangement').value") != "scopes":
        page.keyboard.press("v")
    wait(
        page,
        f"document.getElementById('graph')._cyreg !== undefined && {CY}.nodes().length > 0 || "
        "document.querySelector('#tree .row') === null",
    )
    settled(page)
    return page


@cache
def towers_page() -> str:
    return html_page(picture(TOWERS, gpu=2))


@cache
def graph_page(file: str) -> str:
    """The page of a graph in `graphs/`."""
    return html_page(picture((GRAPHS / file).read_text()))


@pytest.fixture
def drawn(browser: Browser) -> Page:
    """The page of two towers by scope, whatever is open or selected in it."""
    return by_scope(browser.look(towers_page()))


@pytest.fixture
def towers(drawn: Page) -> Page:
    """The page of two towers with its first scopes open, nothing selected, and colours by device."""
    page = drawn
    page.evaluate("document.activeElement.blur()")
    press(page, "Escape")
    press(page, "c")
    press(page, "f")
    colour_by(page, "device")
    return page


def press(page: Page, key: str) -> None:
    page.keyboard.press(key)
    settled(page)


def boxes(page: Page) -> dict[str, dict[str, Any]]:
    """What is drawn by its name: the left, top, right and bottom edges, and whether it is an open scope."""
    rows = page.evaluate(
        f"{CY}.nodes('.node, .scope').map(b => ({{text: b.data('text'), item: b.data('item'), open: b.hasClass('open'), "
        "x1: b.position('x') - b.width() / 2, y1: b.position('y') - b.height() / 2, "
        "x2: b.position('x') + b.width() / 2, y2: b.position('y') + b.height() / 2}))"
    )
    names = page.evaluate("[...document.querySelectorAll('#tree .row')].map(row => [Number(row.dataset.item), row.title])")
    return {dict(names)[row["item"]]: row for row in rows}


def first_by_scope(browser: Browser, text: str, width: int) -> Page:
    """A page's first picture by scope in a window of this width: a window that shows the page already is made so wide."""
    page = by_scope(browser.look(text, width))
    wait(page, f"innerWidth === {width} && {CY}.width() === document.getElementById('graph').clientWidth")
    for key in "cvv":
        press(page, key)
    return page


def place(page: Page, name: str) -> tuple[float, float]:
    """Where the middle of a box is on the screen."""
    item = boxes(page)[name]["item"]
    x, y = page.evaluate(
        f"(() => {{ const p = {CY}.getElementById('{item}').renderedPosition(); "
        "const r = document.getElementById('graph').getBoundingClientRect(); return [p.x + r.x, p.y + r.y]; })()"
    )
    return x, y


def settled(page: Page) -> None:
    """Until a layout that was asked for is drawn."""
    wait(page, "document.getElementById('status').textContent === ''")


def colour_by(page: Page, mode: str) -> None:
    page.evaluate(f"byId('mode').value = '{mode}'; byId('mode').dispatchEvent(new Event('change'))")


def test_it_opens_with_the_outermost_scopes_which_the_legend_does_not_hide(browser: Browser) -> None:
    towers = by_scope(browser.open(towers_page()))
    assert set(boxes(towers)) >= {"model", "tower_0", "tower_1", "train"}
    assert towers.inner_text("#title") == "graph.yaml"
    copies = len(picture(TOWERS, gpu=2).copies)
    assert towers.inner_text("#facts").startswith(f"52 ops on 3 devices · {copies} transfers")
    settled(towers)
    lowest = towers.evaluate(
        f"{CY}.elements().renderedBoundingBox().y2 + document.getElementById('graph').getBoundingClientRect().y"
    )
    assert lowest < towers.evaluate("document.getElementById('legend').getBoundingClientRect().y")


def test_the_matrix_is_the_pictures(drawn: Page) -> None:
    rows = drawn.evaluate(
        "[...document.querySelectorAll('#matrix tr')].slice(1).map(r => [...r.cells].map(c => c.textContent))"
    )
    names = ["CPU:0", "GPU:0", "GPU:1"]
    expected = picture(TOWERS, gpu=2).matrix()
    assert [[names[src], names[dst], str(total.number)] for (src, dst), total in expected.items()] == [row[:3] for row in rows]


def test_the_page_names_the_library_that_it_carries(drawn: Page) -> None:
    version = drawn.evaluate("cytoscape.version")
    assert f"Cytoscape.js {version}" in SHELL.about
    assert f"Cytoscape.js {version}" in (ASSETS / SHELL.main[0]).read_text()


def test_links_end_at_their_boxes(drawn: Page) -> None:
    gaps = drawn.evaluate(
        f"{CY}.edges().map(e => {{ const gap = (p, b) => Math.max(Math.abs(p.x - b.position('x')) - b.width() / 2, "
        "Math.abs(p.y - b.position('y')) - b.height() / 2); "
        "return Math.max(Math.abs(gap(e.sourceEndpoint(), e.source())), Math.abs(gap(e.targetEndpoint(), e.target()))); })"
    )
    assert gaps
    assert max(gaps) < 12


def test_no_two_devices_look_alike(drawn: Page) -> None:
    assert drawn.evaluate("new Set(Array.from({length: 42}, (_, i) => JSON.stringify({...look(i, ''), label: 0}))).size") == 42


@pytest.mark.parametrize(
    ("mode", "legend"),
    [
        ("device", "GPU:1"),
        ("op", "ReluGrad"),
        ("requested", "/device:GPU:1"),
        ("moved", "on the requested device"),
        ("bytes", "< 32 KiB"),
    ],
)
def test_the_graph_is_coloured_by(drawn: Page, mode: str, legend: str) -> None:
    images = f"JSON.stringify({CY}.nodes('.node, .scope').map(b => b.data('image')))"
    colour_by(drawn, "device")
    device = drawn.evaluate(images)
    colour_by(drawn, mode)
    assert legend in drawn.inner_text("#legend")
    # all is on the requested device, and a device looks the same in a request
    assert (drawn.evaluate(images) == device) == (mode in ("device", "requested"))


def test_search_by_keyboard_finds_a_node_and_opens_what_it_stands_in(towers: Page) -> None:
    towers.keyboard.press("/")
    towers.keyboard.insert_text("tower_1 d_weights")
    assert "tower_1/gradients/layer_1/d_weights" in towers.inner_text("#found")
    towers.keyboard.press("ArrowDown")
    towers.keyboard.press("Enter")
    settled(towers)
    name = "tower_1/gradients/layer_0/d_weights"
    wait(towers, f"document.querySelector('#panel .title').innerText === '{name}'")
    assert boxes(towers)["tower_1/gradients"]["open"]
    assert towers.evaluate(f"{CY}.nodes('.chosen').map(b => b.data('item'))") == [boxes(towers)[name]["item"]]
    assert towers.evaluate("document.querySelector('#tree [aria-selected=true]').title") == name
    assert towers.evaluate("decodeURIComponent(location.hash)") == "#" + name
    x, y = place(towers, name)
    assert 300 < x < 1060
    assert 60 < y < 880


def test_an_address_leads_to_its_node(towers: Page) -> None:
    towers.evaluate("location.hash = 'train/layer_1/rate'")
    wait(towers, "document.querySelector('#panel .title').innerText === 'train/layer_1/rate'")
    settled(towers)
    assert "train/layer_1/rate" in boxes(towers)


def test_a_double_click_opens_a_scope_and_closes_it(towers: Page) -> None:
    before = set(boxes(towers))
    scope = next(name for name, box in boxes(towers).items() if name.startswith("train") and not box["open"])
    towers.mouse.click(*place(towers, scope), click_count=2)
    wait(towers, "document.querySelector('#tree [aria-selected=true][aria-expanded=true]') !== null")
    settled(towers)
    assert f"{scope}/rate" in set(boxes(towers)) - before
    towers.evaluate("document.querySelector('#panel button').click()")
    wait(towers, f"{CY}.nodes('.node, .scope').length === {len(before)}")
    assert set(boxes(towers)) == before


def test_boxes_stand_in_their_scopes_and_apart_from_each_other(towers: Page) -> None:
    towers.evaluate("location.hash = 'tower_0/gradients/layer_0/shape'")
    wait(towers, "document.querySelector('#panel .title').innerText.endsWith('shape')")
    settled(towers)
    found = boxes(towers)
    inside = ("x1", "y1"), ("x2", "y2")
    for name, box in found.items():
        around = [found[outer] for outer in found if name.startswith(outer + "/") and found[outer]["open"]]
        for outer in around:
            assert all(outer[low] < box[low] for low in inside[0])
            assert all(outer[high] > box[high] for high in inside[1])
        for other, apart in found.items():
            if other == name or box["open"] or apart["open"]:
                continue
            overlaps = (
                box["x1"] < apart["x2"] and apart["x1"] < box["x2"] and box["y1"] < apart["y2"] and apart["y1"] < box["y2"]
            )
            assert not overlaps, (name, other)


def test_a_click_shows_the_placers_reasons(towers: Page) -> None:
    towers.evaluate("location.hash = 'train/layer_0/apply_weights'")
    wait(towers, "document.querySelector('#panel .title').innerText.endsWith('apply_weights')")
    settled(towers)
    towers.keyboard.press("Escape")
    wait(towers, "document.querySelector('#proof') === null")
    towers.mouse.click(*place(towers, "train/layer_0/apply_weights"))
    wait(towers, "document.querySelector('#proof') !== null")
    live = snapshot(TOWERS, gpu=2).live
    assert live is not None
    assert live.placement is not None
    graph = live.placement.graph
    shown = " ".join(towers.inner_text("#proof").split())
    for term, text, nodes in Paragraphs(live).of(graph.ids["train/layer_0/apply_weights"]):
        for node in nodes:
            text = text.replace(NODE, graph.nodes[node].name, 1)
        assert term in shown
        assert text in shown
    towers.evaluate("document.querySelector('#proof a').click()")
    wait(towers, "document.querySelector('#panel .title').innerText === 'model/layer_0/weights'")


def test_the_tree_obeys_the_keys_of_trees(towers: Page) -> None:
    towers.keyboard.press("c")
    settled(towers)
    towers.evaluate("document.querySelector('#tree .row').click(); document.querySelector('#tree .row').focus()")
    towers.keyboard.press("ArrowDown")
    assert towers.evaluate("document.activeElement.title") == "model/layer_0"
    towers.keyboard.press("ArrowRight")
    settled(towers)
    wait(towers, "document.activeElement.title === 'model/layer_0'")
    assert towers.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    towers.keyboard.press("ArrowRight")
    assert towers.evaluate("document.activeElement.title") == "model/layer_0/weights"
    towers.keyboard.press("ArrowLeft")
    assert towers.evaluate("document.activeElement.title") == "model/layer_0"


def test_arrow_keys_walk_through_the_graph(towers: Page) -> None:
    towers.evaluate("location.hash = 'tower_0/layer_0/matmul'")
    wait(towers, "document.querySelector('#panel .title').innerText.endsWith('matmul')")
    settled(towers)
    towers.evaluate("document.getElementById('graph').focus()")
    towers.keyboard.press("ArrowDown")
    assert towers.inner_text("#panel .title") == "tower_0/layer_0/add"
    towers.keyboard.press("ArrowUp")
    assert towers.inner_text("#panel .title") == "tower_0/layer_0/matmul"


def test_what_has_no_room_is_closed_inside_first(browser: Browser) -> None:
    page = first_by_scope(browser, towers_page(), 400)
    assert {"model", "tower_0", "tower_1", "train"} == set(boxes(page))


CONTRAST = """(() => {
  const light = (colour) => { const part = [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16) / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2]; };
  const css = getComputedStyle(document.documentElement), read = (name) => css.getPropertyValue(name).trim();
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const tints = [...PALETTE, GREY, ...RAMP].map(colour => mix(colour, read('--surface'), 0.14));
  return [Math.min(...tints.map(tint => ratio(tint, read('--text')))), ratio(read('--soft'), read('--surface')),
    ratio(read('--copy'), read('--ground')), ratio(read('--accent'), read('--surface'))];
})()"""


def test_transfers_are_drawn_with_their_bytes(browser: Browser) -> None:
    towers = by_scope(browser.look(graph_page(SMALL)))
    labels = towers.evaluate(f"{CY}.nodes('.size').map(s => s.data('text'))")
    assert "10 tensors · 4.1 MiB" in labels
    assert len(labels) == towers.evaluate(f"{CY}.edges('.copy').length")
    assert towers.evaluate(f"{CY}.edges('.copy').every(e => e.style('line-color') !== {CY}.edges('.data').style('line-color'))")


def test_a_link_tells_its_tensors(browser: Browser) -> None:
    towers = by_scope(browser.look(graph_page(SMALL)))
    x, y = towers.evaluate(
        f"(() => {{ const p = {CY}.nodes('.size')[0].renderedPosition(); "
        "const r = document.getElementById('graph').getBoundingClientRect(); return [p.x + r.x, p.y + r.y]; })()"
    )
    towers.mouse.click(x, y)
    wait(
        towers, "document.querySelector('#panel h2:not(.title)')?.innerText.toLowerCase().startsWith('copied between devices')"
    )
    assert "image_shards:0" in towers.inner_text("#panel")


@pytest.mark.parametrize("width", [1400, 800])
@pytest.mark.parametrize("file", [SMALL, "alexnet.yaml"])
def test_by_scope_the_first_picture_fits_and_can_be_read(browser: Browser, file: str, width: int) -> None:
    page = first_by_scope(browser, graph_page(file), width)
    box = page.evaluate(f"(b => [b.x1, b.y1, b.x2, b.y2])({CY}.nodes('.node, .scope').renderedBoundingBox())")
    canvas = page.evaluate("(e => [e.clientWidth, e.clientHeight])(document.getElementById('graph'))")
    assert min(box[:2]) >= 0
    assert box[2] <= canvas[0]
    assert box[3] <= canvas[1]
    # letters have 12 pixels at the zoom 1
    assert page.evaluate(f"{CY}.zoom() * 12") >= 10


def test_light_and_dark_are_legible(browser: Browser) -> None:
    page = browser.open(towers_page(), dark=True)
    for dark in (True, False):
        browser.change(dark=dark)
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground))) < 200) == dark
        # WCAG 2.1: 4.5 to 1 for text
        assert min(page.evaluate(CONTRAST)) >= 4.5


# --- lanes by device


def lanes(browser: Browser, seen: Picture, width: int = 1400) -> Page:
    """A picture's page as it opens where ops are on several devices."""
    page = browser.open(html_page(seen), width=width)
    assert page.evaluate("document.getElementById('arrangement').value") == "lanes"
    return page


@pytest.fixture
def tower_lanes(browser: Browser) -> Page:
    """The page of two towers by device, whatever is selected in it."""
    page = browser.look(towers_page(), 1400)
    if page.evaluate("document.getElementById('arrangement').value") != "lanes":
        press(page, "v")
    return page


PIECES = """[...document.querySelectorAll('.lane')].map(lane => [lane.getAttribute('aria-label'),
  [...lane.querySelectorAll('.box')].map(box => box.innerText.split('\\n'))])"""
LETTER_SIZES = (
    "[...document.querySelectorAll('#lanes *')].filter(e => e.innerText).map(e => parseFloat(getComputedStyle(e).fontSize))"
)


def hold_places(page: Page) -> None:
    """The boxes have the places of the rule."""
    depths, links, places = page.evaluate(
        "(({pieces, links}) => [pieces.map(p => p.depth), links, pieces.map(p => p.place)])(thePage.views.lanes)"
    )
    assert places == box_places(depths, [(source, target) for source, target in links])
    assert len(set(places)) > 2


def hold_pieces(page: Page, seen: Picture) -> None:
    """The pieces and their columns are those of the SVG."""
    most, pieces, wires = page.evaluate(
        "(({width, pieces, wires}) => { const places = Math.max(...pieces.map(p => p.place)) + 1; "
        "const most = Math.max(1, Math.min(places, Math.floor((width - LANE_HEAD - 24) / COLUMN))); "
        "const columns = columnsOf(pieces, places, most); return [most, "
        "pieces.map(p => [thePage.model.name(p.item), p.device, p.place, columns[p.place], p.nodes.length]), "
        "wires.map(w => [w.link.source, w.link.target, w.total.copies, w.total.bytes])]; })(thePage.views.lanes)"
    )
    arranged = arrange_lanes(seen, *page_tree(seen.nodes), most)
    names = [piece.item.name if isinstance(piece.item, Scope) else seen.nodes[piece.item].name for piece in arranged.pieces]
    expected = [[name, p.device, p.place, p.column, len(p.nodes)] for name, p in zip(names, arranged.pieces, strict=True)]
    assert sorted(pieces) == sorted(expected)
    assert sorted(row[2:] for row in wires) == sorted([wire.copies.number, wire.copies.bytes] for wire in arranged.wires)


def test_each_device_has_a_lane_with_what_it_runs(browser: Browser) -> None:
    seen = picture(TOWERS, gpu=2)
    page = lanes(browser, seen, 400)
    hold_places(page)
    for width in (400, 800, 1400):
        browser.change(width)
        wait(page, "thePage.views.lanes.width === thePage.views.lanes.container.clientWidth")
        if width > 400:
            hold_pieces(page, seen)
        page.keyboard.press("c")
        pieces = dict(page.evaluate(PIECES))
        assert list(pieces) == ["CPU:0", "GPU:0", "GPU:1"]
        # a name that is too wide loses what stands before its last part
        assert [(name.rpartition("/")[2], what) for name, what in pieces["GPU:1"]] == [
            ("images", "Placeholder"),
            ("layer_0", "3 ops"),
            ("layer_1", "3 ops"),
            ("gradients", "10 ops"),
        ]
        # a scope on two devices stands in both lanes
        assert ["▸ train/layer_1", "4 of 5 ops"] in pieces["CPU:0"]
        assert ["▸ train/layer_1", "1 of 5 ops"] in pieces["GPU:0"]
        assert overflowing(page) == []
        assert min(page.evaluate(LETTER_SIZES)) >= 10
        over = page.evaluate(
            "(() => { const at = e => e.getBoundingClientRect(), legend = at(document.getElementById('legend')); "
            "return at(document.getElementById('canvas')).bottom <= legend.top + 0.5; })()"
        )
        assert over


def test_between_lanes_is_what_is_copied(tower_lanes: Page) -> None:
    page, seen = tower_lanes, picture(TOWERS, gpu=2)
    assert page.evaluate("document.querySelectorAll('.wire').length") > 0
    totals = page.evaluate("thePage.views.lanes.wires.flatMap(wire => [...wire.link.copies])")
    known = copies_by_edge(seen)
    # what is only fetched goes to no lane
    read = {(source.node, source.slot, node.device) for node in seen.nodes for source in node.inputs}
    assert set(totals) == {copy for key, copy in known.items() if key in read}
    page.evaluate("document.querySelector('.pill').click()")
    assert "copied between devices" in page.inner_text("#panel h2:not(.title)").lower()
    page.evaluate("[...document.querySelectorAll('.box')].find(box => box.title === 'tower_1/gradients').click()")
    assert page.inner_text("#panel .title") == "tower_1/gradients"
    lit = page.evaluate(
        "thePage.views.lanes.wires.filter(w => w.path.classList.contains('lit')).every(w => "
        "[w.link.source, w.link.target].includes(thePage.chosen))"
    )
    assert lit


def test_wires_follow_when_a_window_changes_its_height(tower_lanes: Page) -> None:
    page = tower_lanes
    ends = "JSON.stringify([...document.querySelectorAll('.wire')].map(wire => wire.getAttribute('d')))"
    before = page.evaluate(ends)
    page.set_viewport_size({"width": 1400, "height": 1400})
    wait(page, f"{ends} !== {json.dumps(before)}")
    assert page.evaluate("thePage.views.lanes.height") > 900


def test_a_scope_opens_in_its_lanes_and_closes(tower_lanes: Page) -> None:
    page = tower_lanes
    page.keyboard.press("/")
    page.keyboard.insert_text("tower_1/layer_0/matmul")
    page.keyboard.press("Enter")
    wait(page, "document.querySelector('#panel .title').innerText === 'tower_1/layer_0/matmul'")
    assert page.inner_text(".box.chosen .name").endswith("…/matmul")
    assert "Outputs" in page.inner_text("#panel")
    assert "float32 [32,64]" in page.inner_text("#panel")
    assert "transpose_a" in page.inner_text("#panel")
    assert "Requested\n/device:GPU:1\nAssigned" in page.inner_text("#panel dl")
    page.evaluate("[...document.querySelectorAll('.open button')].find(b => b.innerText.startsWith('tower_1 ')).click()")
    wait(page, "[...document.querySelectorAll('.box')].some(box => box.title === 'tower_1')")
    page.keyboard.press("c")
    wait(page, "document.querySelector('.box.chosen') === null")


def test_a_device_has_one_look_everywhere(browser: Browser) -> None:
    page = lanes(browser, picture(towers_text(2, 2), gpu=9))
    looks = page.evaluate("deviceMode(thePage.model).looks.map(({colour, pattern}) => [colour, pattern])")
    devices = [*range(10), -1]
    assert looks == [[device_colour(device), device_pattern(device)] for device in devices]
    assert page.evaluate("PATTERNS") == list(PATTERNS)


def test_what_was_moved_from_its_request_is_told(browser: Browser) -> None:
    nodes = "{op: NoOp, name: a, device: /gpu:7}, {op: NoOp, name: b, device: /cpu:0}"
    text = f"config: {{allow_soft_placement: true}}\nnodes: [{nodes}]"
    page = lanes(browser, picture(text, gpu=1))
    colour_by(page, "moved")
    assert page.inner_text("#legend").split("\n")[:2] == ["not on the requested device", "on the requested device"]
    page.evaluate("[...document.querySelectorAll('.box')].find(box => box.title === 'a').click()")
    assert "not on the requested device" in page.inner_text("#panel")
    told = page.evaluate("[...document.querySelectorAll('#edits li')].map(row => row.innerText)")
    assert "turn soft placement off (--no-soft-placement)" not in " ".join(told)  # that would place nothing
    assert any(
        text.endswith("drop the device /device:GPU:7 of a; the node is then on CPU:0") or "then on CPU:0" in text
        for text in told
    )
    assert page.inner_text("#edits code") == "placesim explain graph.yaml a"
    page.evaluate("document.querySelector('#edits button').click()")
    assert page.evaluate("String(getSelection())").strip() == "placesim explain graph.yaml a"
    page.evaluate("[...document.querySelectorAll('.box')].find(box => box.title === 'b').click()")
    assert page.evaluate("document.querySelectorAll('#edits li').length") == 0
    assert page.inner_text("#edits code") == "placesim explain graph.yaml b"


def test_a_cluster_is_grouped_by_task(browser: Browser) -> None:
    text = """
devices: [{job: ps, tasks: 1, cpu: 1}, {job: worker, tasks: 1, cpu: 1, gpu: 1}]
config: {master: /job:ps/replica:0/task:0}
nodes:
  - {op: Const, name: a, value: 1.0, device: /job:ps/task:0}
  - {op: Neg, name: b, inputs: [a], device: "/job:worker/task:0/gpu:0"}
fetch: [b]
"""
    page = lanes(browser, picture(text))
    shown = page.evaluate("[...document.querySelectorAll('.task')].map(t => t.innerText)")
    assert shown == list(dict.fromkeys(device_tasks(picture(text).devices)))
    assert set(shown) == {"/job:ps/task:0", "/job:worker/task:0"}
    assert page.evaluate("document.querySelectorAll('.wire').length") == 1


def test_a_written_report_is_shown_without_edges(browser: Browser) -> None:
    live = snapshot(TOWERS, gpu=2)
    document = {
        "devices": [device._asdict() for device in live.devices],
        "placements": [{"node": n.name, "op": n.op, "device": n.device, "requested": n.requested} for n in live.nodes],
        "transfers": [row._asdict() for row in live.transfers],
        "error": None,
    }
    page = opened(browser, picture_of(baseline_snapshot(document, "report.json")))
    assert page.evaluate(f"{CY}.edges().length") == 0
    assert "run `show` on the graph to see them" in page.inner_text("#panel")


def test_an_error_stands_at_the_top(browser: Browser) -> None:
    page = opened(browser, picture("nodes: [{op: NoOp, name: a, device: /gpu:7}]"))
    assert "Cannot assign a device for operation a" in page.inner_text("#error")
    assert "not placed" in page.inner_text("#legend")


def test_an_empty_graph_is_no_error(browser: Browser) -> None:
    page = opened(browser, Picture("empty.yaml", ("/job:localhost/replica:0/task:0/device:CPU:0",)))
    assert page.inner_text("#facts").startswith("0 ops on 1 device")


def test_twenty_thousand_nodes_are_usable(browser: Browser) -> None:
    seen = picture(towers_text(8, 274), gpu=8)
    assert len(seen.nodes) >= LARGE_NODES
    shown = html_page(seen)
    assert len(shown.encode()) < MAX_LARGE_BYTES
    page = by_scope(browser.open(shown))
    assert len(boxes(page)) <= 60
    page.keyboard.press("/")
    page.keyboard.insert_text("tower_5/gradients/layer_200/d_input")
    page.keyboard.press("Enter")
    wait(page, "document.querySelector('#panel .title').innerText.endsWith('layer_200/d_input')")
    settled(page)
    assert page.evaluate(f"{CY}.nodes('.chosen').length") == 1


def test_a_flat_graph_of_many_nodes_is_folded(browser: Browser) -> None:
    entries = ", ".join(f"{{op: NoOp, name: n_{i}}}" for i in range(3000))
    page = opened(browser, picture(f"nodes: [{entries}]"))
    assert len(boxes(page)) <= 60
    page.evaluate("location.hash = 'n_1234'")
    wait(page, "document.querySelector('#panel .title').innerText === 'n_1234'")
    settled(page)
    assert "n_1234" in boxes(page)


def test_memory_by_device_is_seen_and_leads_to_its_node(browser: Browser, tmp_path: Path) -> None:
    page = lanes(browser, with_memory(tmp_path, 4))
    rows = page.evaluate(
        "[...document.querySelectorAll('#memory .peak')].map(row => row.innerText.replace(/\\s+/g, ' ').trim())"
    )
    assert rows[1:] == ["GPU:0 8.0 MiB at s/a 4.0 MiB over", "GPU:1 4.001 MiB at c 1.3 KiB over"]
    assert page.evaluate("document.querySelectorAll('#memory .meter.over').length") == 2
    page.evaluate("document.querySelectorAll('#memory .peak a')[1].click()")
    wait(page, "document.querySelector('#panel .title').innerText === 's/a'")
    settled(page)
    assert "4.0 MiB held on GPU:0" in page.inner_text("#panel")
    page.evaluate("location.hash = 's'")
    wait(page, "document.querySelector('#held') !== null")
    held = page.evaluate("[...document.querySelectorAll('#held tr')].map(r => [...r.cells].map(c => c.innerText.trim()))")
    assert held == [["GPU:0", "4.0 MiB", "50 %"], ["GPU:1", "4.0 MiB", "100 %"]]


def test_where_memory_is_not_known_it_says_why(browser: Browser, tmp_path: Path) -> None:
    page = browser.open(html_page(with_memory(tmp_path)), 390)
    assert "Unavailable: placeholders have unknown shapes: x [?,262144]" in page.inner_text("#memory")
    for width in (390, 900, 1440):
        browser.change(width)
        assert overflowing(page) == []
    assert page.evaluate("document.querySelector('.peak')") is None
