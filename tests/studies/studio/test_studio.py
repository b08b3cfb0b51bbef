"""The studio's answers: placements with problems and reasons, steps, explanations, plans."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest

import placesim
from placesim.core.errors import UsageError
from placesim.studies.studio.language import language
from placesim.studies.studio.messages import State
from placesim.studies.studio.plan_process import PlanSearch, read_search
from placesim.studies.studio.plan_search import NO_PLAN, PlanEvent
from placesim.studies.studio.source import StudioSource, read_state
from placesim.studies.studio.start import start_document
from placesim.studies.studio.studio import Studio
from tests.processes import ROOT

TOWERS = str(ROOT / "graphs/towers.yaml")
SLOW_GPU = "devices: {cpu: 1, gpu: 2}\nnodes:\n- {op: Const, name: a, value: 1, device: /gpu:0}\n"


def studio_of(tmp_path: Path, text: str, **options: Any) -> Studio:
    path = tmp_path / "graph.yaml"
    path.write_text(text, "utf-8")
    return Studio(StudioSource(str(path), options))


def changed(state: State, **parts: Any) -> State:
    return cast("State", {**state, **parts})


def test_an_edit_is_answered_with_what_moved_and_why() -> None:
    studio = Studio(StudioSource(TOWERS, {}))
    start = studio.source.start
    answer = studio.answer(7, changed(start, devices=[["MatMul", "/gpu:0"], ["nosuch", "/gpu:0"], ["MatMul", "GPU 1"]]), start)
    assert (answer["id"], answer["problems"], answer["error"]) == (7, [], None)
    assert answer["changes"] is not None
    assert answer["changes"]["moved"] == [
        {
            "name": "MatMul",
            "nodes": 1,
            "before": "GPU:2",
            "after": "GPU:0",
            "why": "requested /device:GPU:0 by the edit of MatMul",
        }
    ]
    gained = {(row["source"], row["target"]): row["after"][0] - row["before"][0] for row in answer["changes"]["transfers"]}
    assert gained == {("GPU:2", "GPU:0"): 2, ("GPU:2", "CPU:0"): -1, ("GPU:0", "CPU:0"): 1}
    assert [edit["nodes"] for edit in answer["edits"]] == [1, 0, 1]
    assert answer["edits"][1]["problem"].startswith("no node matches 'nosuch'")
    assert "GPU 1" in answer["edits"][2]["problem"]
    assert answer["settings"]["gpu"] == 4
    assert [device["request"] for device in answer["devices"]] == ["/cpu:0", "/gpu:0", "/gpu:1", "/gpu:2", "/gpu:3"]
    assert answer["picture"] is not None
    assert answer["picture"]["nodes"]["name"][0] == "Const"


def test_problems_have_their_lines_and_errors_their_fixes(tmp_path: Path) -> None:
    studio = studio_of(tmp_path, SLOW_GPU, soft_placement=False)
    start = studio.source.start
    broken = studio.answer(1, changed(start, text="nodes:\n- {op: Konst}\n- {op: Const, vale: 1}\n"), start)
    assert broken["picture"] is None
    assert [problem["line"] for problem in broken["problems"]] == [2, 3]
    assert studio.answer(2, changed(start, options={"gpu": -1}))["problems"][0]["line"] == 0
    refused = changed(start, text=SLOW_GPU.replace("gpu:0", "gpu:5"))
    answer = studio.answer(3, refused, start)
    assert answer["error"] is not None
    assert (answer["error"]["type"], answer["error"]["node"], answer["error"]["line"]) == ("InvalidArgumentError", "a", 3)
    fixes = studio.explain(4, refused, "a")["edits"]
    assert {"gpu": 6} in [fix["options"] for fix in fixes]
    assert {"soft_placement": True} in [fix["options"] for fix in fixes]
    # each fix that a state can express has the effect that is told
    for fix in fixes:
        if fix["options"] is not None or fix["devices"] is not None:
            options = {**refused["options"], **(fix["options"] or {})}
            assert studio.answer(5, changed(refused, options=options, devices=fix["devices"] or []))["error"] is None, fix


def test_an_explanation_has_the_proof_and_edits_that_move_the_node() -> None:
    studio = Studio(StudioSource(TOWERS, {}))
    state = changed(studio.source.start, devices=[["MatMul", "/gpu:0"]])
    found = studio.explain(1, state, "MatMul")
    assert found["summary"] == "requested /device:GPU:0 by the edit of MatMul"
    assert found["proof"][0] == ["Edited", "The edit of MatMul requests /device:GPU:0."]
    assert found["line"] == 11
    assert found["text"].startswith("MatMul: (MatMul): /job:localhost/replica:0/task:0/device:GPU:0")
    moved = changed(state, devices=[*state["devices"], *(found["edits"][0]["devices"] or [])])
    assert "; the node is then on " in found["edits"][0]["text"]
    assert studio.explain(2, moved, "MatMul")["summary"] != found["summary"]
    with pytest.raises(UsageError, match="no such node: got 'MatMull'"):
        studio.explain(1, state, "MatMull")


def test_a_measure_has_times_memory_and_lanes_beside_the_baseline() -> None:
    studio = Studio(StudioSource(TOWERS, {}))
    start = studio.source.start
    found = studio.measure(1, changed(start, devices=[["*", ""], ["*", "/gpu:0"]], options={"soft_placement": True}), start)
    assert found["now"] is not None
    assert found["before"] is not None
    assert found["lanes"] is not None
    assert found["now"]["step"]["seconds"] != found["before"]["step"]["seconds"]
    assert found["now"]["step"]["bound"] <= found["now"]["step"]["seconds"]
    assert [row["device"] for row in found["before"]["memory"]] == ["CPU:0", "GPU:2", "GPU:3"]
    assert all(sum(size for _, size in row["parts"]) == row["peak"] for row in found["now"]["memory"])
    assert set(found["lanes"]["names"]) >= {"MatMul", "MatMul_1", "AddN"}
    # without a step that can be known, a note says why
    unknown = "nodes:\n- {op: Placeholder, name: x, dtype: float32}\n- {op: Sqrt, name: y, inputs: [x]}\nfetch: y\n"
    assert studio.measure(2, changed(start, text=unknown))["note"].startswith("Unavailable: ")


def test_a_page_can_only_change_options_that_name_no_file() -> None:
    studio = Studio(StudioSource(TOWERS, {}))
    for options in ({"inventory": "/etc/passwd"}, {"allow_all_files": True}, {"checkpoint": "x"}, {"device": ["a=b"]}):
        answer = studio.answer(1, changed(studio.source.start, options=options))
        assert answer["problems"][0]["message"].startswith("wrong option of the page")
    for wrong in (None, {}, {"text": 1, "options": {}, "devices": []}, {"text": "", "options": {"gpu": {}}, "devices": []}):
        with pytest.raises(UsageError, match="wrong "):
            read_state(wrong)
    with pytest.raises(UsageError, match="half of a surrogate pair"):
        read_state({"text": "", "options": {}, "devices": [["\ud800", "/gpu:0"]]})
    for pairs in ("x", [["a"]], [["a", 1]]):
        with pytest.raises(UsageError, match="wrong devices"):
            read_state({"text": "", "options": {}, "devices": pairs})
    for search in (None, {"free": "x", "seconds": 1}, {"free": [], "seconds": 0}, {"free": [], "seconds": True}):
        with pytest.raises(UsageError, match="wrong search"):
            read_search(search)


def test_the_command_line_is_the_start(tmp_path: Path) -> None:
    studio = studio_of(tmp_path, SLOW_GPU, gpu=3, device=("a=/gpu:2",), link=("GPU:0-GPU:1=25GB/s",))
    start = start_document(studio)
    assert start["state"]["devices"] == [["a", "/gpu:2"]]
    assert start["state"]["options"] == {"gpu": 3, "link": ["GPU:0-GPU:1=25GB/s"]}
    assert {field["name"]: field["value"] for field in start["options"]}["gpu"] == 3
    assert start["answer"]["picture"] is not None
    assert start["measure"] is None
    shared = start_document(studio, is_live=False)
    assert shared["measure"] is not None
    assert shared["answer"]["picture"] is not None
    assert shared["answer"]["picture"]["proofs"]["of_node"] == [0]


def test_a_source_without_text_has_edits_of_devices_alone(tmp_path: Path) -> None:
    placesim.convert(TOWERS, tmp_path / "towers.pb")
    studio = Studio(StudioSource(str(tmp_path / "towers.pb"), {"gpu": 4}))
    state = studio.source.start
    assert (studio.source.kind, state["text"]) == ("TensorFlow file", None)
    answer = studio.answer(1, state)
    assert answer["picture"] is not None
    assert "MatMul" in answer["picture"]["nodes"]["name"]
    moved = studio.answer(2, changed(state, devices=[["MatMul", "/cpu:0"]]), state)["changes"]
    assert moved is not None
    assert [(row["name"], row["after"]) for row in moved["moved"]] == [("MatMul", "CPU:0")]


def test_the_words_of_an_editor() -> None:
    words = language("2.21")
    matmul = next(op for op in words["ops"] if op["name"] == "MatMul")
    assert matmul["signature"] == "(a: T, b: T) -> (product: T)"
    assert "kernel GPU" in matmul["text"]
    assert "transpose_a" in matmul["attrs"]
    assert {"op", "inputs", "device"} <= set(words["keys"]["op"])
    assert {"nodes", "devices", "run"} <= set(words["keys"]["file"])
    assert "allow_soft_placement" in words["keys"]["config"]


def events_of(source: StudioSource, state: State) -> list[PlanEvent]:
    events: list[PlanEvent] = []
    is_over = Event()

    def tell(event: PlanEvent) -> None:
        events.append(event)
        if event.name == "plan-done":
            is_over.set()

    search = PlanSearch(source, tell)
    search.start(state, {"free": ["*"], "seconds": 1.0})
    with pytest.raises(UsageError, match="a search is running"):
        search.start(state, {"free": ["*"], "seconds": 1.0})
    assert is_over.wait(60)
    search.stop()
    search.close()
    return events


@pytest.mark.slow(3)
def test_a_plan_is_a_base_and_edits_with_the_told_step_time(tmp_path: Path) -> None:
    text = SLOW_GPU + "".join(
        f"- scope: layer{n}\n  nodes:\n"
        f"  - {{op: Const, name: w, dtype: float32, shape: [2048, 2048], value: 1}}\n"
        f"  - {{op: MatMul, name: y, inputs: [layer{n}/w, layer{n}/w]}}\n"
        for n in range(2)
    )
    studio = studio_of(tmp_path, f"{text}fetch: [layer0/y, layer1/y]\n", device=("layer*=/cpu:0",))
    state = studio.source.start
    events = events_of(studio.source, state)
    assert {event.name for event in events} >= {"plan-best", "plan-done"}
    found = events[-1].data
    base = found["base"]
    assert base["devices"][: len(state["devices"])] == state["devices"]
    planned = changed(base, devices=[*base["devices"], *(pair for edit in found["edits"] for pair in edit["devices"])])
    measure = studio.measure(1, planned, state)
    assert measure["now"] is not None
    assert measure["before"] is not None
    assert measure["now"]["step"]["seconds"] == found["value"]
    assert measure["before"]["step"]["seconds"] == found["before"]
    assert found["bound"] <= found["value"] < found["before"]
    # what can't be planned is told
    (end,) = events_of(studio.source, changed(state, text="nodes: []"))
    assert end == PlanEvent("plan-done", {**NO_PLAN, "note": end.data["note"]})
    assert end.data["note"]
