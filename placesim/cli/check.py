"""`placesim check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from placesim.cli.command import command
from placesim.cli.forms import Form, find_form, form_option
from placesim.cli.options import given, machine_options, placement_options, size_options, source_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from placesim.inspection.checking.findings import Finding
    from placesim.inspection.checking.rules import RuleUse


def _text(findings: Sequence[Finding], uses: Sequence[RuleUse]) -> str:
    from placesim.report.text.findings import format_findings

    return format_findings(findings)


def _json(findings: Sequence[Finding], uses: Sequence[RuleUse]) -> Iterator[str]:
    from placesim.report.document import json_text
    from placesim.report.text.findings import findings_document

    return json_text(findings_document(findings))


def _sarif(findings: Sequence[Finding], uses: Sequence[RuleUse]) -> Iterator[str]:
    from placesim import __version__
    from placesim.report.document import json_text
    from placesim.report.text.sarif import sarif_document

    return json_text(sarif_document(findings, {use.rule.name: use.rule.help for use in uses}, __version__))


def _github(findings: Sequence[Finding], uses: Sequence[RuleUse]) -> str:
    from placesim.report.text.findings import format_github

    return format_github(findings)


FORMS: tuple[Form[Callable[[Sequence[Finding], Sequence[RuleUse]], str | Iterator[str]]], ...] = (
    Form("text", _text),
    Form("json", _json),
    Form("sarif", _sarif),
    Form("github", _github),
)
EXITS = {
    0: "no rule is broken",
    1: "a rule is broken, or a graph can't be placed",
    2: "the policy or the command line is wrong",
}


@command("check", exits=EXITS)
@click.argument("graph", required=False)
@click.option("--policy", metavar="FILE", help="A YAML file whose `rules` the placement is held to.")
@click.option("--rule", "rules", multiple=True, metavar="RULE", help="A rule, as in a policy, or NAME=VALUE; may be repeated.")
@click.option("--rules", "lists_rules", is_flag=True, help="List all rules and what they can be told, and stop.")
@size_options("max-peak-memory, max-step-time and max-link-bytes")
@machine_options
@source_options
@placement_options
@form_option(FORMS, "The form of the findings.", "text")
def check_command(
    graph: str | None, policy: str | None, rules: tuple[str, ...], lists_rules: bool, form: str, **values: Any
) -> int:
    """Hold a placement to a policy, and print where it is broken as FILE:LINE:COL: rule: message.

    GRAPH is whatever `run` takes, or a report that `--format json` wrote.  Without a policy or a rule, only
    that the graph can be placed is checked.

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
      placesim check model.yaml --policy policy.yaml --format sarif > findings.sarif
      placesim check model.yaml --rule max-transfers=10 --rule 'apart: [tower_0/, tower_1/]'
    """
    from placesim.cli.graph_arguments import open_subject
    from placesim.cli.output import write, write_styled
    from placesim.deadlines import run_within
    from placesim.inspection.checking.policy import describe_rules
    from placesim.inspection.checking.rules import check_snapshot
    from placesim.subjects import Wish, Wishes

    if lists_rules:
        write(describe_rules())
        return 0
    if graph is None:
        raise click.UsageError("no graph: got no argument, expected GRAPH")
    uses = _rule_uses(policy, rules)
    wishes = Wishes(
        memory=Wish.NEEDED if any(use.rule.needs_memory for use in uses) else Wish.NONE,
        time=Wish.NEEDED if any(use.rule.needs_time for use in uses) else Wish.NONE,
    )
    snapshot = open_subject(graph, given(values), wishes=wishes)
    findings = run_within(values["timeout"], lambda: check_snapshot(snapshot, uses))
    write_styled(find_form(FORMS, form).write(findings, uses))
    return 1 if findings else 0


def _rule_uses(policy: str | None, rules: tuple[str, ...]) -> tuple[RuleUse, ...]:
    from placesim.inspection.checking.policy import read_policy, read_rule
    from placesim.loading import read_bytes

    uses = () if policy is None else read_policy(read_bytes(policy), policy)
    return (*uses, *map(read_rule, rules))
