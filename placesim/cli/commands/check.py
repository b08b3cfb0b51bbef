"""`placesim check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from placesim.cli.command import command
from placesim.cli.option_types import option
from placesim.cli.options import given, graph_options, guess_options, output_option, size_options
from placesim.cli.output_forms import Form, form_option, table_forms, take_target, write_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from placesim.inspection.checking.findings import CheckResult, Finding
    from placesim.inspection.checking.rules import RuleUse
    from placesim.inspection.snapshot import Snapshot
    from placesim.report.text.tables import Tables


def _findings(checked: Sequence[CheckResult]) -> list[Finding]:
    return [finding for graph in checked for finding in graph.findings]


def _text(checked: Sequence[CheckResult], uses: Sequence[RuleUse]) -> str:
    from placesim.report.text.findings import format_findings

    return format_findings(_findings(checked))


def _sarif(checked: Sequence[CheckResult], uses: Sequence[RuleUse]) -> Iterator[str]:
    from placesim.core.version import __version__
    from placesim.report.document import json_text
    from placesim.report.text.sarif import sarif_document

    return json_text(sarif_document(_findings(checked), {use.rule.name: use.rule.help for use in uses}, __version__))


def _github(checked: Sequence[CheckResult], uses: Sequence[RuleUse]) -> str:
    from placesim.report.text.findings import format_github, format_github_error

    return "".join(
        format_github(graph.findings) if graph.error is None else format_github_error(graph.name, graph.error)
        for graph in checked
    )


def _junit(checked: Sequence[CheckResult], uses: Sequence[RuleUse]) -> Iterator[str]:
    from placesim.report.text.junit import junit_document

    return junit_document(checked, [use.rule.name for use in uses])


def _json_lines(checked: Sequence[CheckResult], uses: Sequence[RuleUse]) -> Iterator[str]:
    from placesim.report.document import json_line
    from placesim.report.text.findings import findings_document

    return map(json_line, findings_document(_findings(checked))["findings"])


def _tables(checked: Sequence[CheckResult], uses: Sequence[RuleUse]) -> Tables:
    from placesim.report.text.findings import TABLES, findings_document
    from placesim.report.text.tables import Tables

    return Tables(TABLES, lambda: findings_document(_findings(checked)))


FORMS: tuple[Form[Callable[[Sequence[CheckResult], Sequence[RuleUse]], Any]], ...] = (
    Form("text", _text, (".txt",)),
    Form("json", _tables, (".json",)),
    Form("jsonl", _json_lines, (".jsonl",)),
    Form("sarif", _sarif, (".sarif",)),
    Form("github", _github),
    Form("junit", _junit, (".xml",)),
    *table_forms(_tables),
)
SHOW_ERRORS = ("github", "junit")
"""Formats that include the error of a graph that can't be read or placed."""


def _report_files(rule: str) -> list[str]:
    """Return the report files that a rule names."""
    from placesim.inspection.checking.policy import reports_of_rule

    return reports_of_rule(rule)


EXITS = {
    0: "no rule is broken",
    1: "a rule is broken, or a graph can't be placed",
    2: "the policy or the command line is wrong",
}


@command("check", exits=EXITS)
@click.argument("graphs", nargs=-1, metavar="[GRAPH]...")
@option("--policy", metavar="FILE", help="YAML file with the `rules` to check.", folder_values="own files")
@option(
    "--rule",
    "rules",
    completes="rules",
    multiple=True,
    metavar="RULE",
    help="Rule to check: NAME, NAME=VALUE, or the YAML of a policy's rule (repeatable).",
    folder_values="own files",
    files=_report_files,
)
@option("--rules", "lists_rules", is_flag=True, help="List all rules with their parameters, and exit.", folder_values="none")
@size_options("max-peak-memory, max-step-time, max-link-bytes and max-transfer-bytes")
@guess_options
@graph_options
@form_option(FORMS, "Output format of the findings (default: text, or from the extension of --output).")
@output_option()
def check_command(graphs: tuple[str, ...], policy: str | None, rules: tuple[str, ...], lists_rules: bool, **values: Any) -> int:
    """Check placements against a policy; print violations as FILE:LINE:COL: rule: message.

    GRAPH is any graph that `run` reads, a report written by `--format json`, or a .jsonl file with one such report per line.
    All graphs are checked, even if one cannot be read; the exit code is the highest of the graphs' exit codes.  Without a
    policy or a rule, the command checks only that the graph can be placed.

    \b
    A policy:
      rules:
        - no-soft-fallback
        - max-transfers: 10
        - max-peak-memory: {bytes: 4GiB, device: GPU}
        - max-step-time: 5ms
        - max-transfer-bytes: {bytes: 4MiB, from: GPU:0, to: CPU:0}
        - max-link-bytes: {bytes: 64MiB, link: '*PCIe*'}
        - on-device: {ops: [MatMul, Conv2D], device: '/gpu:*'}
        - baseline: placement.json

    \b
    Examples:
      placesim check graphs/towers.yaml --gpu 1 --soft-placement --rule no-soft-fallback
      placesim check model.yaml --policy policy.yaml --output findings.sarif
      placesim check graphs/*.yaml --soft-placement --output findings.xml
      placesim check model.yaml --rule max-transfers=10 --rule 'apart: [tower_0/, tower_1/]'
    """
    from placesim.api.inspections import read_rules, rule_needs
    from placesim.cli.graph_arguments import subjects_in
    from placesim.cli.output import complain, tell, write
    from placesim.cli.progress import show_stages
    from placesim.core.process.interrupts import InterruptGrace
    from placesim.core.process.progress import report_stage
    from placesim.inspection.checking.policy import describe_rules

    if lists_rules:
        write(describe_rules())
        return 0
    if not graphs:
        raise click.UsageError("missing argument GRAPH: expected a graph file")
    if graphs.count("-") > 1:
        raise click.UsageError("standard input used twice: got - for several graphs, expected it once")
    target = take_target(FORMS, values)
    uses = read_rules(rules, policy)
    subjects = [subject for graph in graphs for subject in subjects_in(graph, given(values), rule_needs(uses))]
    total = len(subjects) if len(subjects) > 1 else None
    raises = total is None and target.form not in SHOW_ERRORS
    checked: list[CheckResult] = []
    try:
        with show_stages("checking"), report_stage("checking graphs", lambda: (len(checked), total)):
            for name, opened in subjects:
                checked.append(_check(name, opened, uses, values["timeout"], raises=raises))
    except KeyboardInterrupt:
        if checked:
            with InterruptGrace():
                tell(f"interrupted: checked {len(checked)} of {len(subjects)} graphs\n")
                write_target(FORMS, target, checked, uses)
        raise
    write_target(FORMS, target, checked, uses)
    if target.form == "text":
        complain(_count(checked))
    return max((result.exit_code for result in checked), default=0)


def _count(checked: Sequence[CheckResult]) -> str:
    """Return a line with the number of findings, graphs and errors."""
    from placesim.report.readings import counted

    findings, errors = len(_findings(checked)), sum(result.error is not None for result in checked)
    said = f"{counted(findings, 'finding') if findings else 'no findings'} in {counted(len(checked) - errors, 'graph')}"
    return f"{said}; {counted(errors, 'graph')} could not be checked\n" if errors else f"{said}\n"


def _check(
    name: str, opened: Callable[[], Snapshot], uses: Sequence[RuleUse], timeout: float | None, *, raises: bool
) -> CheckResult:
    """Return the findings of a graph, or its error. The error is printed; if `raises` is set, it is raised instead."""
    from functools import partial

    from placesim.cli.output import write_error
    from placesim.core.errors import PlacesimError
    from placesim.core.process.deadlines import run_within
    from placesim.inspection.checking.findings import CheckResult
    from placesim.inspection.checking.rules import check_snapshot

    try:
        return CheckResult(name, run_within(timeout, partial(check_snapshot, opened(), uses)))
    except PlacesimError as error:
        if raises:
            raise
        write_error(error)
        return CheckResult(name, error=error)
