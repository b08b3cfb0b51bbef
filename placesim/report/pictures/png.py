"""SVG -> PNG, by resvg, which comes with `placesim[pictures]`."""

from __future__ import annotations

from typing import Any

from placesim.core.errors import UsageError

SCALE = 2
"""Pixels of the picture to a CSS pixel, so that it is sharp on fine screens and in print."""
_LETTER = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16">'
    '<text y="14" font-family="sans-serif" font-size="14">{}</text></svg>'
)
_FONTS: tuple[dict[str, Any], ...] = ({}, {"sans_serif_family": "DejaVu Sans", "monospace_family": "DejaVu Sans Mono"})
"""The machine's own choice of fonts, and those that machines without one have most often."""


def png_of(svg: str) -> bytes:
    """A drawing as an image.  Raises UsageError if resvg, or a font for its letters, is not there."""
    try:
        import resvg_py
    except ImportError:
        raise UsageError(
            "PNG output needs resvg: got no such package, expected `pip install 'placesim[pictures]'`; .svg needs none"
        ) from None
    for fonts in _FONTS:
        if resvg_py.svg_to_bytes(svg_string=_LETTER.format("M"), **fonts) != resvg_py.svg_to_bytes(
            svg_string=_LETTER.format("")
        ):
            return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=SCALE, **fonts))
    raise UsageError("PNG output needs a font: got none on this machine, expected one such as DejaVu Sans; or write .svg")
