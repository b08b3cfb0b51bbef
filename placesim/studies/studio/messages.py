"""The messages between the studio's page and its server, as JSON objects.

The page sends the whole state with each request, and the server keeps no edits. Devices of requests are in TensorFlow's
notation (`/device:GPU:1`); other devices are full names, or their short forms where a field says so (`GPU:1`).
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class State(TypedDict):
    """The graph and the machine that the page shows.

    - `text`: the text of the graph file in the editor; None if the source is not a graph file.
    - `options`: simulation options by name, in addition to the command line's. The page may set those in `Start.options`.
    - `devices`: edits as pairs of a node, pattern or scope (`conv1/`) and a requested device, in order; the last match counts.
    """

    text: str | None
    options: dict[str, Any]
    devices: list[list[str]]


class Question(TypedDict):
    """The body of every request. `id` is a number that the answer repeats, so that the page can drop late answers.

    - `page`: a random text of the page. A later `measure` of the same page ends an earlier one.
    - `baseline`: the state with which `answer` and `measure` compare.
    - `node`: the name of the node that `explain` explains.
    - `search`: the settings of `plan`.
    - `kind`: the form that `save` writes; `is_written` says whether the named graph file is replaced, and `overwrites` whether
      even if it has changed on the disk.
    """

    id: int
    page: NotRequired[str]
    state: State
    baseline: NotRequired[State | None]
    node: NotRequired[str]
    search: NotRequired[Search]
    kind: NotRequired[str]
    is_written: NotRequired[bool]
    overwrites: NotRequired[bool]


class FileProblem(TypedDict):
    """A problem of the text or the options. Lines and columns start at 1; line 0 means no line."""

    line: int
    column: int
    message: str
    help: list[str]


class PlacementError(TypedDict):
    """TensorFlow's error for a graph that can't be placed or run. `text` is the complete text, with suggestions."""

    type: str
    summary: str
    text: str
    node: str | None
    line: int
    column: int


class EditResult(TypedDict):
    """The effect of an edit in `State.devices`: the number of matching nodes. `problem` says why the edit was left out."""

    nodes: int
    problem: str


class Move(TypedDict):
    """A node, or a whole scope (`name` ends in `/`), on another device than in the baseline. Devices are short.

    `why` is the reason for the new device, in one line.
    """

    name: str
    nodes: int
    before: str
    after: str
    why: str


class TransferChange(TypedDict):
    """The copies from one device to another (short names), in the baseline and now, as numbers of tensors and bytes."""

    source: str
    target: str
    before: list[int]
    after: list[int]


class Changes(TypedDict):
    """The differences of a placement from the baseline."""

    moved: list[Move]
    added: list[str]
    removed: list[str]
    transfers: list[TransferChange]


class DeviceFacts(TypedDict):
    """A device: its full and short names, its request for `State.devices`, hardware, and memory limit (None if unlimited)."""

    name: str
    short: str
    request: str
    model: str
    limit: int | None


class Answer(TypedDict):
    """The answer to `answer`: the placement. With `problems`, the graph could not be read, and `picture` is None.

    - `picture`: the document of the page of `placesim show` (`report/pictures/page_data.py`), without proofs and edits.
    - `edits`: a result for each edit in `State.devices`, in order.
    - `changes`: None without a baseline, or if one of the two graphs can't be read.
    - `settings`: the values in effect of the options in `Start.options`, from the state, the command line or the graph file;
      None if the tasks of a cluster differ, or if no value is in effect.
    - `devices`: the devices in the order of `picture.devices`, with their hardware and memory limit in bytes.
    - `seconds`: the time that the server took.
    """

    id: int
    problems: list[FileProblem]
    error: PlacementError | None
    warnings: list[str]
    picture: dict[str, Any] | None
    settings: dict[str, Any]
    devices: list[DeviceFacts]
    edits: list[EditResult]
    changes: Changes | None
    seconds: float


class StepTime(TypedDict):
    """The predicted time of a step with its interval and its lower bound, in seconds."""

    seconds: float
    low: float
    high: float
    bound: float
    bound_reason: str


class DevicePeak(TypedDict):
    """A device's peak memory and limit in bytes (None if unlimited), and its parts at the peak, as pairs of kind and bytes."""

    device: str
    peak: int
    limit: int | None
    parts: list[list[Any]]


class Measured(TypedDict):
    """The time and memory of a state."""

    step: StepTime
    memory: list[DevicePeak]


class Measure(TypedDict):
    """The answer to `measure`: the simulated step.

    - `note`: says why there is no simulation; empty if there is one.
    - `now`, `before`: the time and memory of the state and of the baseline; None if unknown.
    - `lanes`: the timeline with the critical path, in the form of the page of `placesim simulate`, with its tables of texts
      (`lanes_document` of `report/pictures/timing_data.py`); None without a simulation.
    - `error`: the error of a device that runs out of memory; the times then ignore memory limits.
    - `assumptions`: sentences about values that are unknown before the step runs.
    """

    id: int
    note: str
    now: Measured | None
    before: Measured | None
    lanes: dict[str, Any] | None
    error: PlacementError | None
    assumptions: list[str]
    seconds: float


class Suggestion(TypedDict):
    """An edit that was tried by placing the edited graph.

    `text` is the edit with its result. `devices` and `options` are the additions to the state that have the same effect; both
    are None for an edit that must be made in the text, at `line` (0 if there is no line).
    """

    text: str
    line: int
    devices: list[list[str]] | None
    options: dict[str, Any] | None


class Explanation(TypedDict):
    """The answer to `explain`: the proof as pairs of term and text, and edits that would move the node.

    `summary` is the reason in one line. `text` is the text of `placesim explain`. `line` is the node's line in the graph file.
    """

    id: int
    node: str
    summary: str
    line: int
    proof: list[list[str]]
    edits: list[Suggestion]
    text: str


class Search(TypedDict):
    """The settings of a search for a plan, named like the options of `placesim plan`.

    `free` has patterns of the nodes whose requests the plan may drop: `*` for all.
    """

    free: list[str]
    seconds: float


class PlanProgress(TypedDict):
    """The data of the event `plan-progress`: the elapsed seconds and their limit, and the best step time and bound so far.

    `value` is None before the first plan.
    """

    seconds: float
    limit: float
    value: float | None
    bound: float


class FoundEdit(TypedDict):
    """An edit of a plan: a title, the number of nodes that it moves, their device, and its pairs for `State.devices`."""

    title: str
    nodes: int
    device: str
    devices: list[list[str]]


class FoundPlan(TypedDict):
    """The data of the events `plan-best` and `plan-done`: a plan that was simulated.

    - `base`: the state of the search, or if that takes fewer edits, this state without the requests that were free. `base` with
      the devices of the accepted edits appended is a new state; with all edits, it is the plan.
    - `edits`: the edits of the plan; empty if nothing is better than the state of the search.
    - `value`, `before`, `bound`: the step time in seconds of the plan and of the state of the search (None if it does not run),
      and the lower bound of any plan.
    - `is_interrupted`: whether the search was stopped.
    - `note`: says why there is no plan; `base` is then None.
    """

    base: State | None
    edits: list[FoundEdit]
    value: float | None
    before: float | None
    bound: float
    is_interrupted: bool
    note: str


class Saved(TypedDict):
    """The answer to `save`: the content and a file name for it.

    `content` is a text, or base64 of bytes if `is_binary`. `written` is the path of the graph file if it was replaced.
    `options` are the state's options that the form can't hold, and `notes` are sentences about all losses. If `conflict`, the
    file on the disk has changed since it was read, and nothing was written.
    """

    id: int
    name: str
    content: str
    is_binary: bool
    written: str | None
    options: dict[str, Any]
    notes: list[str]
    conflict: bool


class OptionField(TypedDict):
    """An option that the page can change.

    `kind` is `count`, `flag`, `choice`, `text` or `texts`. `value` is the value of the command line or the graph file; None if
    neither has one. `choices` are the values of a choice.
    """

    name: str
    label: str
    help: str
    kind: str
    value: Any
    choices: list[str]


class SaveKind(TypedDict):
    """A form of `save`: its name, a label for the menu, and whether it can replace the graph file."""

    kind: str
    label: str
    can_write: bool


class Start(TypedDict):
    """The data in the page itself, in the element `packed-data`.

    - `is_live`: whether a server answers; False in a shared page, which has only this data.
    - `baseline_lanes`: the timeline of `baseline_state`, only in a shared page.
    - `name`: the name of the graph, and `source` its kind: `graph file`, `TensorFlow file`, `ONNX model` or `script`.
    - `state`: the first state of the page, with its `answer` and `measure`. If `measure` is None, the page asks for it. In a
      shared page, `answer.picture` also has `proofs`, and `baseline_state` may be another state.
    - `gpu_models`: rows of the catalogue: name, memory in bytes, compute capability.
    """

    is_live: bool
    name: str
    source: str
    state: State
    baseline_state: State
    answer: Answer
    measure: Measure | None
    baseline_lanes: dict[str, Any] | None
    options: list[OptionField]
    saves: list[SaveKind]
    gpu_models: list[list[Any]]
    version: str


class OpWords(TypedDict):
    """An op for completion and hover: its signature, the names of its attrs, and the text of `placesim ops NAME`."""

    name: str
    signature: str
    attrs: list[str]
    text: str


class Language(TypedDict):
    """The answer to `language`: the vocabulary of graph files.

    `keys` has the keys of each kind of mapping: `file`, entries of `nodes` by their kind (`op`, `variable`, `nodes` for a
    scope, `gradients`, `train`, `cond`, `while`, ...), and `step`, `config`, `devices`, `link` and others.
    """

    ops: list[OpWords]
    keys: dict[str, list[str]]
    dtypes: list[str]


class Refusal(TypedDict):
    """The body of every answer with an HTTP status of 400 or above."""

    problem: str
    help: list[str]
