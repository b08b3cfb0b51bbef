"""Tables as CSV and Markdown."""

import csv

from placesim.report.text.tables import csv_table, markdown_table

ROWS = [("a|b", 'say "x", y', None), ("new\nline", "<b>*[`", 3)]


def test_csv_reads_back() -> None:
    text = csv_table(("one", "two", "three"), ROWS)
    assert list(csv.reader(text.splitlines())) == [
        ["one", "two", "three"],
        ["a|b", 'say "x", y', ""],
        ["new\\nline", "<b>*[`", "3"],
    ]


def test_markdown_keeps_its_columns() -> None:
    assert markdown_table(("one", "two", "three"), ROWS).splitlines() == [
        "| one | two | three |",
        "| --- | --- | --- |",
        '| a\\|b | say "x", y |  |',
        "| new\\\\nline | \\<b>\\*\\[\\` | 3 |",
    ]
