"""JUnit XML of findings, for continuous integration: a suite for each graph, a case for each rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape as quote

from placesim.core.errors import PlacesimError
from placesim.core.escaping import escape, escape_line
from placesim.core.grouped import grouped
from placesim.inspection.checking.findings import PLACEABLE, CheckResult, Finding


def junit_document(checked: Sequence[CheckResult], rules: Sequence[str]) -> Iterator[str]:
    """Yield a JUnit document in pieces; `rules` are the names of the checked rules."""
    suites = [list(_cases(graph, rules)) for graph in checked]
    failed = sum(bool(findings) for cases in suites for _, findings in cases)
    errors = sum(graph.error is not None for graph in checked)
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<testsuites name="placesim check" {_counts(sum(map(len, suites)), failed, errors)}>\n'
    for graph, cases in zip(checked, suites, strict=True):
        name = _attribute(graph.name)
        counts = _counts(len(cases), sum(bool(findings) for _, findings in cases), graph.error is not None)
        yield f'  <testsuite name="{name}" {counts}>\n'
        for rule, findings in cases:
            yield from _case(name, rule, findings, graph.error)
        yield "  </testsuite>\n"
    yield "</testsuites>\n"


def _cases(graph: CheckResult, rules: Sequence[str]) -> Iterator[tuple[str, list[Finding]]]:
    """Yield each rule with its findings; for a graph that could not be read or placed, only `PLACEABLE`."""
    broken = grouped((finding.rule, finding) for finding in graph.findings)
    yield PLACEABLE, broken.get(PLACEABLE, [])
    if graph.error is None and PLACEABLE not in broken:
        yield from ((rule, broken.get(rule, [])) for rule in dict.fromkeys(rules))


def _case(graph: str, rule: str, findings: Sequence[Finding], error: PlacesimError | None) -> Iterator[str]:
    head = f'    <testcase classname="{graph}" name="{_attribute(rule)}"'
    if error is not None:
        yield f'{head}>\n      <error message="{_attribute(str(error))}"/>\n    </testcase>\n'
    elif not findings:
        yield f"{head}/>\n"
    else:
        place = findings[0].location
        yield f'{head} file="{_attribute(place.file)}" line="{place.line}">\n'
        yield f'      <failure type="{_attribute(rule)}" message="{_attribute(findings[0].message)}">'
        yield "".join(f"{quote(escape(str(finding)), quote=False)}\n" for finding in findings)
        yield "</failure>\n    </testcase>\n"


def _counts(tests: int, failures: int, errors: int) -> str:
    return f'tests="{tests}" failures="{failures}" errors="{int(errors)}"'


def _attribute(text: str) -> str:
    return quote(escape_line(text))
