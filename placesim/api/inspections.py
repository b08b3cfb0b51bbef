"""Questions about a placement for Python callers: explanations, checks, differences, pictures and conversions.

Functions import their large modules when called, so that `import placesim` is fast enough for a shell tool.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from placesim.api.calls import api_call, check_whole_numbers
from placesim.core.errors import UsageError
from placesim.core.process.deadlines import run_within
from placesim.formats.sources.loading import kept_source, load, read_bytes, source_again, source_name
from placesim.machine.options import OptionValues, SimulationOptions, make_options, with_options
from placesim.studies.snapshots import (
    NO_WISHES,
    DryRunNeed,
    DryRunNeeds,
    check_sides,
    may_be_report,
    name_lacks,
    name_missing,
    open_snapshot,
    prediction_snapshot,
    read_snapshot,
)

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph, Source
    from placesim.inspection.checking.rules import RuleUse
    from placesim.inspection.snapshot import Snapshot
    from placesim.report.explain_report import ExplainReport
    from placesim.report.inspection_reports import CheckReport, DiffReport, ShowReport
    from placesim.report.plan_report import PlanReport
    from placesim.report.report import Report
    from placesim.report.time_report import TimeReport

    Rule = str | Mapping[str, Any]

EDITS = 8
"""Default number of edits shown per node."""


@with_options
@api_call
def explain(
    source: Source | Report, *nodes: str, edits: int = EDITS, cost: bool | None = None, **options: Unpack[OptionValues]
) -> ExplainReport:
    """Explain why nodes are on their devices, and which edits would move them.

    `nodes` are names, ids, shell patterns or scopes that end in `/`; without any, all nodes are explained briefly. `edits`
    limits the edits per node (0: none). `cost` adds each node's predicted time; None adds it only if it is cheap to compute. If
    the graph can't be placed, the report's `error` has the conflict and possible fixes.

    Raises UsageError for an unknown node, with the nearest name, and an error if the graph or an option is wrong.
    """
    from placesim.report.explain_report import explain_snapshot

    check_whole_numbers(0, edits=edits)
    chosen = make_options(options)
    wish = DryRunNeed.of(cost, options, by_itself=True) if nodes else DryRunNeed.NONE
    snapshot = _snapshot(source, chosen, DryRunNeeds(costs=wish), partitioned=False)
    return run_within(chosen.timeout, lambda: explain_snapshot(snapshot, nodes, edits))


@with_options
@api_call
def check(
    source: Source | Report,
    *rules: Rule,
    policy: str | PurePath | Mapping[str, Any] | None = None,
    **options: Unpack[OptionValues],
) -> CheckReport:
    """Check a placement against a policy.

    The report's `findings` list the violations, and `is_kept` says whether there are none. A rule in `rules` is an entry of a
    policy, or a text as for `--rule`: `"no-soft-fallback"`, `"max-transfers=10"`, `{"max-transfers": 10}`. `policy` is a file
    or its content as a mapping. A graph that can't be placed is a violation.

    Raises GraphFileError or UsageError for an invalid policy, rule or graph.
    """
    from placesim.core.version import __version__
    from placesim.inspection.checking.rules import check_snapshot
    from placesim.report.inspection_reports import CheckReport

    uses = read_rules(rules, policy)
    chosen = make_options(options)
    snapshot = _snapshot(source, chosen, rule_needs(uses))
    return CheckReport(snapshot.name, run_within(chosen.timeout, lambda: check_snapshot(snapshot, uses)), uses, __version__)


@with_options
@api_call
def diff(
    before: Source | Report | PlanReport | TimeReport,
    after: Source | Report | PlanReport | TimeReport | None = None,
    *,
    before_options: Mapping[str, Any] | None = None,
    after_options: Mapping[str, Any] | None = None,
    memory: bool | None = None,
    time: bool | None = None,
    page: bool = False,
    **options: Unpack[OptionValues],
) -> DiffReport:
    """Compare two placements: moved, new and removed nodes, transfers, memory peaks, step times and errors.

    A result of `plan` means its graph with the plan's devices. A result of `simulate` has only step times. Without `after`, the
    graph is compared with itself under other options. `before_options` and `after_options` apply to one side, and override
    `options`. `memory` and `time` say whether to compare memory peaks and step times; None compares them only if that is cheap.
    A UserWarning says why a requested part is not compared. With `page`, the steps of both graphs are simulated, and the report
    has an HTML page, which a notebook shows.

    Raises UsageError if there is nothing to compare, or if a page is wanted and a side has no steps. Also raises an error if a
    graph or an option is wrong.
    """
    from placesim.inspection.difference import compare
    from placesim.report.inspection_reports import DiffReport
    from placesim.report.text.difference import side_label

    sides = [{**options, **(own or {})} for own in (before_options, after_options)]
    if after is None and sides[0] == sides[1]:
        raise UsageError(
            "nothing to compare with: got one graph on one machine, expected two graphs, or before_options or after_options"
        )
    kept = kept_source(before, make_options(sides[0]))
    sources = (kept, kept if after is None else kept_source(after, make_options(sides[1])))
    names = (_name(before), _name(before if after is None else after))
    sized = {key: value for side in sides for key, value in side.items() if key in ("batch", "shape")}
    peaks, times = (DryRunNeed.of(asked, sized, by_itself=True) for asked in (memory, time))
    wishes = DryRunNeeds(peaks, times, sizes=DryRunNeed.of(None, sized, by_itself=False))
    snapshots = [
        _predicted(source, wishes) or _snapshot(source, make_options(side), wishes, name=name, takes_prediction=True)
        for source, side, name in zip(sources, sides, names, strict=True)
    ]
    are_reports = [hasattr(source, "document") or found.live is None for source, found in zip(sources, snapshots, strict=True)]
    check_sides(zip(names, are_reports, (before_options or (), after_options or ()), strict=True), has_page=page)
    labels = [side_label(name, *pair) for name, pair in zip(names, (sides, sides[::-1]), strict=True)]
    for sentence in name_missing(snapshots, labels, memory, time):
        warnings.warn(sentence, stacklevel=3)
    shown = _comparison(sources, sides, labels, names) if page else None
    return DiffReport(compare(*snapshots), labels[0], labels[1], shown)


def _comparison(sources: Sequence[Any], sides: Sequence[dict[str, Any]], labels: Sequence[str], names: Sequence[str]) -> str:
    """Return an HTML page that compares the steps of two graphs."""
    from placesim.report.pictures.comparison_page import difference_page
    from placesim.studies.time_study import study_time

    studies = [
        study_time(_load_again(source, options), options, name, is_traced=True)
        for source, options, name in zip(sources, map(make_options, sides), names, strict=True)
    ]
    return difference_page(names, labels, studies)


@with_options
@api_call
def show(
    source: Source | Report, *, depth: int | None = None, memory: bool | None = None, **options: Unpack[OptionValues]
) -> ShowReport:
    """Show a placement: its name scopes by device, and the copies between devices.

    A notebook shows the report's page, which needs no network. The report also has `text`, `svg`, `png`, `dot`, `mermaid` and
    `document`, with scopes open down to `depth`. `memory` adds memory use to the page; None adds it only if it is cheap to
    compute. Raises an error if the graph or an option is wrong. A graph that can't be placed is shown as far as it was placed.
    """
    from placesim.inspection.picturing.picture import picture_of
    from placesim.report.inspection_reports import ShowReport

    chosen = make_options(options)
    wish = DryRunNeed.of(memory, options, by_itself=True)
    sizes = DryRunNeed.of(None, options, by_itself=False)
    costs = wish if wish is DryRunNeed.CHEAP else DryRunNeed.NONE
    snapshot = _snapshot(source, chosen, DryRunNeeds(memory=wish, costs=costs, sizes=sizes))
    tells_memory = DryRunNeed.of(memory, options, by_itself=False) is not DryRunNeed.NONE
    return ShowReport(run_within(chosen.timeout, lambda: picture_of(snapshot)), depth, tells_memory=tells_memory)


class ConvertedGraph(NamedTuple):
    """A graph in another format. `notes` are sentences about content that the format can't hold."""

    form: str
    content: bytes
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<placesim.Converted to {self.form}: {len(self.content):,} bytes>"

    def text(self) -> str:
        """Return the content of YAML, JSON and text GraphDefs as a string.

        Raises UsageError for a binary GraphDef and an ONNX model.
        """
        if self.form in ("pb", "onnx"):
            got = "a binary GraphDef" if self.form == "pb" else "an ONNX model"
            raise UsageError(f"not text: got {got}, expected format yaml, json or pbtxt")
        return self.content.decode()


@with_options
@api_call
def convert(
    source: Source,
    out: str | PurePath | None = None,
    *,
    format: str | None = None,
    nodes: str = "exact",
    placed: bool = False,
    **options: Unpack[OptionValues],
) -> ConvertedGraph:
    """Convert a graph to YAML, JSON or a GraphDef, or add devices to an ONNX model.

    Returns the result, and also writes it to `out` if given. `format` is `yaml`, `json`, `pb`, `pbtxt` or, for an ONNX source,
    `onnx`; the default is the extension of `out`, else YAML.

    `nodes` selects the form of nodes in YAML: `exact` uses scopes if they give exactly the same nodes, `raw` writes NodeDefs,
    and `scopes` always uses scopes, even if this loses attrs that have their default values. With `placed`, nodes request the
    devices on which they were placed.

    Raises UsageError for an invalid format or path, and an error if the graph or an option is wrong.
    """
    from placesim.core.files.writer import WholeFiles, unwritable
    from placesim.formats.graph_file.writing.raw_writer import with_feeds_from
    from placesim.studies.conversions import FORMS, NODES, build_placed_file, convert_graph, find_file_form
    from placesim.studies.simulation.simulation import SimulationStage, simulate

    form = format if format is not None else "yaml" if out is None else find_file_form(out)
    for what, given, known in (("format", form, FORMS), ("nodes", nodes, NODES)):
        if given not in known:
            raise UsageError(f"wrong {what}: got {given!r}, expected one of {', '.join(known)}")
    chosen = make_options(options)
    loaded = load(source, None, chosen)
    if loaded.error is not None or loaded.file is None:
        raise loaded.error or UsageError("no graph")
    file = loaded.file
    if placed:
        outcome = simulate(loaded, chosen, SimulationStage.PLACED)
        if outcome.error is not None:
            raise outcome.error
        file = build_placed_file(file, outcome, form)
    folder = Path() if out is None else Path(out).parent
    written = convert_graph(with_feeds_from(file, loaded.directory, folder), form, nodes, loaded.onnx, source)
    content = b"".join(written.pieces)
    if out is not None:
        try:
            with WholeFiles() as files:
                files.write(Path(out), [content], makes_folders=True)
        except (OSError, ValueError) as error:
            raise unwritable(Path(out), error) from error
    return ConvertedGraph(form, content, written.notes)


# --- sources --------------------------------------------------------------------------------------------------------


def _snapshot(
    source: Any,
    options: SimulationOptions,
    wishes: DryRunNeeds = NO_WISHES,
    *,
    partitioned: bool = True,
    name: str | None = None,
    takes_prediction: bool = False,
) -> Snapshot:
    """Place a graph, or take the placement of a report, and return it as a snapshot. The options do not apply to a report."""
    if hasattr(source, "snapshot"):
        found: Snapshot = name_lacks(source.snapshot(), wishes)
        needed = [what for what, wish in wishes._asdict().items() if wish is DryRunNeed.NEEDED]
        if needed:
            raise UsageError(f"a report holds no {needed[0]}: got a report, expected the graph")
        return found
    if hasattr(source, "document"):
        got = type(source).__name__
        raise UsageError(f"no placement: got {got}, expected a graph, or the report of `place`, `run`, `memory` or `plan`")
    kept = kept_source(source, options)
    written = kept if isinstance(kept, bytes) else None
    if isinstance(source, str | Path) and written is None and may_be_report(source):
        written = read_bytes(source)
    name = name or _name(source)
    read = read_snapshot(written, name, wishes, takes_prediction=takes_prediction)
    return read or open_snapshot(name, _load_again(kept, options), options, partitioned, wishes=wishes)


def _predicted(source: Any, wishes: DryRunNeeds) -> Snapshot | None:
    """Return the step of a result of `simulate` as a snapshot without a placement; None for another source."""
    from placesim.inspection.predicted_step import predicted_step
    from placesim.report.time_report import TimeReport

    if not isinstance(source, TimeReport):
        return None
    return prediction_snapshot(source.study.name, predicted_step(source.study), wishes)


def _load_again(kept: Any, options: SimulationOptions) -> LoadedGraph:
    return load(source_again(kept), None, options)


def _name(source: Any) -> str:
    return str(getattr(source, "name", type(source).__name__)) if hasattr(source, "document") else source_name(source)


def read_rules(rules: Sequence[Rule], policy: str | PurePath | Mapping[str, Any] | None) -> tuple[RuleUse, ...]:
    """Return the rules of a policy, then the given rules. Raises GraphFileError or UsageError if one is invalid."""
    from placesim.inspection.checking.policy import policy_from_tree, read_policy, read_rule

    if isinstance(policy, Mapping):
        uses = policy_from_tree(dict(policy))
    else:
        uses = () if policy is None else read_policy(read_bytes(str(policy), "policy"), str(policy))
    of_rules = (
        read_rule(rule) if isinstance(rule, str) else policy_from_tree({"rules": [rule]}, "<rule>")[0]._replace(location=None)
        for rule in rules
    )
    return (*uses, *of_rules)


def rule_needs(uses: Sequence[RuleUse]) -> DryRunNeeds:
    """Return what the rules need of a dry run."""
    rules = [use.rule for use in uses]
    return DryRunNeeds(
        memory=DryRunNeed.NEEDED if any(rule.needs_memory for rule in rules) else DryRunNeed.NONE,
        time=DryRunNeed.NEEDED if any(rule.needs_time for rule in rules) else DryRunNeed.NONE,
        sizes=DryRunNeed.KNOWN if any(rule.needs_sizes for rule in rules) else DryRunNeed.NONE,
    )
