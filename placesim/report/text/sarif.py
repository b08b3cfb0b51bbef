"""SARIF 2.1.0 logs of findings, which code scanning tools read (OASIS standard, sections 3.13 to 3.27)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from placesim.core.escaping import escape_line
from placesim.inspection.checking.findings import Finding

_DRIVE = re.compile(r"[A-Za-z]:/")
"""Start of an absolute path of Windows."""
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION = "2.1.0"


def sarif_document(findings: Sequence[Finding], rules: Mapping[str, str], version: str) -> dict[str, Any]:
    """Return the SARIF log of one run, with results generated one by one; `rules` describes the checked rules."""
    known = {**rules, **{f.rule: "The graph can be placed on this machine." for f in findings if f.rule not in rules}}
    numbers = {name: number for number, name in enumerate(known)}
    driver = {
        "name": "placesim",
        "version": version,
        "rules": [{"id": name, "shortDescription": {"text": text}} for name, text in known.items()],
    }
    results = (_result(finding, numbers[finding.rule]) for finding in findings)
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": VERSION, "runs": iter([run])}


def _uri(file: str) -> str:
    """Return a file name as a URI. A name with lone surrogates, which only a written report can have, is escaped instead."""
    name = file.replace("\\", "/")
    start, name = (f"file:///{name[:2]}", name[2:]) if _DRIVE.match(name) else ("", name)
    try:
        return start + quote(name.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return start + quote(escape_line(name))


def _result(finding: Finding, rule_index: int) -> dict[str, Any]:
    place = finding.location
    region = {"startLine": max(1, place.line), "startColumn": max(1, place.column)}
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": _uri(place.file)}, "region": region}}
    if finding.node is not None:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.node, "kind": "element"}]
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": "error",
        "message": {"text": finding.message},
        "locations": [location],
    }
