"""Results of `check`, `diff` and `show` for Python callers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from placesim.inspection.checking.findings import Finding
from placesim.inspection.checking.rules import RuleUse
from placesim.inspection.difference import Difference
from placesim.inspection.picturing.picture import Picture
from placesim.report.readings import Reading, counted, plain_document
from placesim.report.text import difference as difference_text
from placesim.report.text import findings as findings_text
from placesim.report.text import scopes as scopes_text
from placesim.report.text.difference import difference_document, difference_tables, format_difference
from placesim.report.text.findings import findings_document, format_findings, format_github
from placesim.report.text.sarif import sarif_document
from placesim.report.text.scopes import scope_lines, scopes_document


class CheckReport(Reading):
    """The findings of a check: violations of rules by a placement. `rules` has the names of the checked rules."""

    TABLES = findings_text.TABLES

    def __init__(self, name: str, findings: Sequence[Finding], uses: Sequence[RuleUse], version: str) -> None:
        self.name = name
        self.findings = tuple(findings)
        self.rules = tuple(dict.fromkeys(use.rule.name for use in uses))
        self._help = {use.rule.name: use.rule.help for use in uses}
        self._version = version

    def __repr__(self) -> str:
        found = f"keeps {counted(len(self.rules), 'rule')}" if self.is_kept else counted(len(self.findings), "finding")
        return f"<placesim.CheckReport of {self.name}: {found}>"

    @property
    def is_kept(self) -> bool:
        """Whether the graph can be placed and no rule is broken."""
        return not self.findings

    def text(self) -> str:
        """Return a line `FILE:LINE:COL: rule: message` for each finding."""
        return str(format_findings(self.findings))

    def github(self) -> str:
        """Return GitHub workflow commands, which GitHub shows at the lines of the file."""
        return format_github(self.findings)

    def sarif(self) -> dict[str, Any]:
        """Return a log in SARIF 2.1.0, which code scanning tools read."""
        return plain_document(sarif_document(self.findings, self._help, self._version))

    def document(self) -> dict[str, Any]:
        """Return the JSON object with `findings`, as plain values."""
        return plain_document(findings_document(self.findings))


class DiffReport(Reading):
    """The differences between two placements; `before` and `after` are their names."""

    TABLES = difference_text.TABLES

    def __init__(self, difference: Difference, before: str, after: str, page: str | None = None) -> None:
        self._page = page
        self.difference = difference
        self.before = before
        self.after = after

    def __repr__(self) -> str:
        found = self.difference
        moved, added, removed = (len(part) for part in (found.moved, found.added, found.removed))
        said = f"{counted(moved, 'node')} moved, {added} added, {removed} removed" if found else "the same"
        return f"<placesim.DiffReport of {self.before} and {self.after}: {said}>"

    @property
    def is_same(self) -> bool:
        """Whether the compared placements are equal."""
        return not self.difference

    def text(self) -> str:
        """Return the differences as text: moved, new and removed nodes."""
        return str(format_difference(self.difference, self.before, self.after))

    def document(self) -> dict[str, Any]:
        """Return the JSON object as plain values."""
        return plain_document(difference_document(self.difference))

    def _table_document(self) -> dict[str, Any]:
        return difference_tables(self.difference)

    def page(self) -> str | None:
        """Return the page with the steps of both placements, or None unless `diff` was called with a page."""
        return self._page


class ShowReport(Reading):
    """A placement as a picture; a notebook shows its page. Unless `tells_memory`, the text has no memory peaks."""

    TABLES = scopes_text.TABLES

    def __init__(self, picture: Picture, depth: int | None, *, tells_memory: bool) -> None:
        self.picture = picture
        self.depth = depth
        self._tells_memory = tells_memory

    def __repr__(self) -> str:
        nodes, devices = len(self.picture.nodes), len(self.picture.devices)
        failure = ", which can't be placed" if self.picture.error else ""
        return f"<placesim.ShowReport of {self.picture.name}: {counted(nodes, 'node')}, {counted(devices, 'device')}{failure}>"

    def text(self) -> str:
        """Return a tab-separated line for each scope down to `depth`, and for each pair of devices."""
        told = self.picture if self._tells_memory else replace(self.picture, memory=(), memory_note="")
        return "".join(scope_lines(told, self.depth).text())

    def document(self) -> dict[str, Any]:
        """Return the JSON object as plain values: `scopes` by device, `transfers` and `memory`."""
        return plain_document(scopes_document(self.picture, self.depth))

    def dot(self) -> str:
        """Return the picture for Graphviz."""
        from placesim.report.pictures.dot import format_dot

        return format_dot(self.picture, self.depth)

    def mermaid(self) -> str:
        """Return the picture as Mermaid, for Markdown."""
        from placesim.report.pictures.mermaid import format_mermaid

        return format_mermaid(self.picture, self.depth)

    def svg(self) -> str:
        """Return the picture as SVG, with one lane (row) per device."""
        from placesim.report.pictures.svg import format_svg

        return format_svg(self.picture, self.depth)

    def png(self) -> bytes:
        """Return the picture as PNG. Raises UsageError if resvg is not installed: `pip install 'placesim[pictures]'`."""
        from placesim.report.pictures.png import png_of

        return png_of(self.svg())

    def page(self) -> str:
        """Return the interactive page: a user can open scopes, search for names, and click on an op to read its explanation."""
        from placesim.report.pictures.html_page import html_page

        return html_page(self.picture)
