"""The manual's page of ONNX's ops, which is written from the rows and from what ONNX's backend tests say.

    python -m tests.formats.onnx.page

Every test that does not agree has its reason in REASONS, or this ends with its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.formats.onnx.backend import KINDS, cases, failure

PAGE = Path(__file__).parents[3] / "placesim" / "manual" / "onnx-ops.md"
OLDEST = 6
"""The opset whose versions are the first that matter: that of ONNX's oldest tests."""
REASONS = (
    (r"e8m0", "TensorFlow has no such element type"),
    (r"training_dropout", "which elements are kept is drawn by numpy's generator"),
    (r"_fp16", "rounding of `half`: sums are taken in another order, or at another precision"),
    (
        r"sequence_insert_at_front|loop13_seq",
        "the number of members is not known, so that the output is one tensor, but they have different shapes",
    ),
    (r"loop16_seq", "an optional is a sequence after the first iteration, and a TensorFlow loop keeps types"),
    (r"image_decoder", "TensorFlow decodes no such file"),
    (r"bernoulli|random|multinomial", "drawn by another generator"),
)
"""Part of a test's name, and why such tests do not agree."""


def page(failures: Mapping[str, Mapping[str, str]], totals: Mapping[str, int]) -> str:
    """The text, of the tests of each kind that do not agree, with their reasons."""
    return "\n".join([*_head(), *row_lines(), *_composition_lines(), *_test_lines(failures, totals)]) + "\n"


def _head() -> Iterator[str]:
    yield "# ONNX's ops: what each becomes, and which of ONNX's tests do not agree"
    yield ""
    yield "Written by `python -m tests.formats.onnx.page` from the rows and from ONNX's backend tests.  `placesim manual onnx`"
    yield "says how models are read."
    yield ""


def row_lines() -> Iterator[str]:
    """The table of rows."""
    from placesim.formats.onnx.families import rows

    yield "## Ops that have a row"
    yield ""
    yield "Cast is added where TensorFlow's CPU has no kernel for a type; Const, Shape and the like where a row needs sizes."
    yield ""
    yield "| op | since versions | becomes |"
    yield "|---|---|---|"
    for (domain, op), versions in sorted(rows().items()):
        texts: dict[str, list[int]] = {}
        for since, row in sorted(versions.items()):
            texts.setdefault(_first_sentences(row.__doc__ or ""), []).append(since)
        for text, known in texts.items():
            name = f"{domain}::{op}" if domain else op
            yield f"| `{name}` | {', '.join(map(str, known))} | {text} |"
    yield ""


def _first_sentences(text: str) -> str:
    """The first paragraph, which says the composition, on one line of a table."""
    return " ".join(text.strip().partition("\n\n")[0].split()).removesuffix(".").replace("|", r"\|")


def _composition_lines() -> Iterator[str]:
    without, none = _ops_without_rows()
    yield "## Ops that are read by ONNX's own composition"
    yield ""
    yield from _wrapped(without)
    yield ""
    if not none:
        yield "Every op of ONNX is in one of these two lists."
        yield ""
        return
    yield "## Ops that have neither"
    yield ""
    yield from _wrapped(none)
    yield ""


def _ops_without_rows() -> tuple[list[str], list[str]]:
    """The ops of ONNX that have no row: those with a composition, and those without."""
    from onnx import defs

    from placesim.formats.onnx.families import rows

    newest = {}
    for schema in defs.get_all_schemas():
        if schema.domain in ("", "ai.onnx.ml") and not schema.deprecated:
            newest[schema.domain, schema.name] = schema
    left = {"::".join(filter(None, key)): schema for key, schema in sorted(newest.items()) if key not in rows()}
    composed = [name for name, schema in left.items() if schema.has_function or schema.has_context_dependent_function]
    return composed, [name for name in left if name not in composed]


def _wrapped(names: list[str]) -> Iterator[str]:
    import textwrap

    yield from textwrap.wrap(
        ", ".join(f"`{name}`" for name in names) + ".", 127, break_long_words=False, break_on_hyphens=False
    )


def _test_lines(failures: Mapping[str, Mapping[str, str]], totals: Mapping[str, int]) -> Iterator[str]:
    yield "## ONNX's backend tests"
    yield ""
    yield "At ONNX's own tolerances; those of training are left out."
    yield ""
    yield "| tests | agree | of |"
    yield "|---|---|---|"
    for kind, total in totals.items():
        yield f"| `{kind}` | {total - len(failures[kind])} | {total} |"
    yield ""
    yield "| does not agree | because |"
    yield "|---|---|"
    for found in failures.values():
        for name, reason in sorted(found.items()):
            yield f"| `{name}` | {reason} |"


def reason_of(name: str, said: str) -> str:
    """Why a test does not agree; empty where nobody has said."""
    missing = re.search(r"unsupported ONNX op '([^']*)'", said)
    if missing:
        return f"`{missing[1]}` unsupported ONNX op"
    return next((reason for part, reason in REASONS if re.search(part, name)), "")


def judged() -> tuple[dict[str, dict[str, str]], dict[str, int]]:
    """The tests of each kind that do not agree, with why; and how many there are."""
    failures: dict[str, dict[str, str]] = {}
    totals = {}
    for kind in KINDS:
        chosen = list(cases(kind))
        totals[kind] = len(chosen)
        said = {case.name: reason for case in chosen if (reason := failure(case))}
        failures[kind] = {name: reason_of(name, text) for name, text in said.items()}
        unexplained = {name: said[name] for name, reason in failures[kind].items() if not reason}
        if unexplained:
            raise SystemExit("\n".join(f"no reason: {name}: {text}" for name, text in unexplained.items()))
    return failures, totals


def listed() -> set[str]:
    """The tests that the page says do not agree."""
    text = PAGE.read_text(encoding="utf-8").partition("## ONNX's backend tests")[2]
    return set(re.findall(r"^\| `(test_[^`]*)` \|", text, re.MULTILINE))


if __name__ == "__main__":
    PAGE.write_text(page(*judged()), encoding="utf-8")
