"""Conversion of SVG to PNG with resvg, which `placesim[pictures]` installs."""

from __future__ import annotations

from typing import Any

from placesim.core.errors import UsageError

SCALE = 2
"""Image pixels per CSS pixel, so that the picture is sharp on high-resolution screens and in print."""
_LETTER = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16">'
    '<text y="14" font-family="sans-serif" font-size="14">{}</text></svg>'
)
_FONTS: tuple[dict[str, Any], ...] = ({}, {"sans_serif_family": "DejaVu Sans", "monospace_family": "DejaVu Sans Mono"})
"""Fonts to try: the machine's default, and the most common fonts on machines without one."""


def png_of(svg: str) -> bytes:
    """Convert a drawing to an image. Raises UsageError if resvg or a usable font is missing."""
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
