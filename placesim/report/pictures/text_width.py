"""Estimates of a text's width without its font: pictures are viewed on machines with unknown fonts.

The widths are those of DejaVu Sans 2.37, the widest sans serif font that systems commonly have. A text therefore fits its box
in any of them.
"""

from __future__ import annotations

_FIRST = " "
# widths of the 95 printable characters of ASCII, in hundredths of the font's size
_REGULAR = (
    *(32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84, 84),
    *(84, 53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79, 60, 79, 69, 63, 61, 73, 68, 99, 69, 61, 69),
    *(39, 34, 39, 84, 50, 50, 61, 63, 55, 63, 62, 35, 63, 63, 28, 28, 58, 28, 97, 63, 61, 63, 63, 41, 52, 39, 63, 59, 82),
    *(59, 59, 52, 64, 34, 64, 84),
)
_BOLD = (
    *(35, 46, 52, 84, 70, 100, 87, 31, 46, 46, 52, 84, 38, 42, 38, 37, 70, 70, 70, 70, 70, 70, 70, 70, 70, 70, 40, 40, 84, 84),
    *(84, 58, 100, 77, 76, 73, 83, 68, 68, 82, 84, 37, 37, 77, 64, 100, 84, 85, 73, 85, 77, 72, 68, 81, 77, 110, 77, 72, 73),
    *(46, 37, 46, 84, 50, 50, 67, 72, 59, 72, 68, 44, 72, 71, 34, 34, 67, 34, 104, 71, 69, 72, 72, 49, 60, 48, 71, 65, 92),
    *(65, 65, 58, 71, 37, 71, 84),
)
_OTHER = 100
"""Width of any other character; the widest characters are as wide as high."""


def text_width(text: str, size: float, *, is_bold: bool = False) -> float:
    """Return the width of a text, in the unit of the font's size."""
    table = _BOLD if is_bold else _REGULAR
    hundredths = (
        table[number] if 0 <= (number := ord(letter) - ord(_FIRST)) < len(table) else 38 if letter == "·" else _OTHER
        for letter in text
    )
    return sum(hundredths) * size / 100


def fit_text(text: str, width: float, size: float, *, is_bold: bool = False) -> str:
    """Return a text shortened with `…` to a width.

    The last part of a name stays whole, and the other parts are cut at the end. If the last part is too long, its middle is
    cut. Of two names joined by ` … `, both are shown in full, else only the first.
    """
    if text_width(text, size, is_bold=is_bold) <= width:
        return text
    first, *others = text.split(" … ")  # the label of several scopes that are alike has the first and the last name
    if others:
        shown = (f"{first}…{others[-1]}", f"{first} …")
        fitting = (one for one in shown if text_width(one, size, is_bold=is_bold) <= width)
        return next(fitting, "") or fit_text(first, width, size, is_bold=is_bold)
    most = int(width * 100 / size) // min(_REGULAR)
    cut = text.rfind("/", 0, -1)
    before, last = (text[:cut], text[cut:]) if cut >= 0 else ("", text)
    shorter = [f"{before[:kept]}…{last}" for kept in range(min(len(before) - 1, most), 0, -1)] if len(last) <= most else []
    for kept in range(min(len(last) - 1, most), 0, -1):
        end = kept // 3
        shorter.append(f"{last[: kept - end]}…{last[len(last) - end :]}")
    return next((shown for shown in shorter if text_width(shown, size, is_bold=is_bold) <= width), "…")
