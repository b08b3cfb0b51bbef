"""The manual's page of TensorFlow 1's functions is that of the tables of public names, and has every name once."""

from __future__ import annotations

import re

from placesim.cli.manual_pages import find_sections
from placesim.tf1.exports import table
from placesim.tf1.importing.functions_page import PATH, functions_page
from placesim.tf1.importing.missing_names import all_names


def test_the_written_page_is_that_of_the_tables() -> None:
    assert PATH.read_text(encoding="utf-8") == functions_page(), "run `make tables`"


def test_every_name_stands_in_its_module_where_it_belongs() -> None:
    found: dict[str, set[str]] = {"There": set(), "Not there": set()}
    for module, section in re.findall(r"^## tf\.?(.*)\n((?:(?!## ).*\n)*)", functions_page(), re.MULTILINE):
        for title, names in re.findall(r"^(There|Not there):\n\n```text\n([^`]*)```$", section, re.MULTILINE):
            found[title] |= {f"{module}.{name}" if module else name for name in names.split()}
    assert found == {"There": set(table()), "Not there": all_names() - table().keys()}


def test_a_module_is_found_by_its_name() -> None:
    section = find_sections(functions_page(), "tf.nn")
    assert section.startswith("## tf.nn\n")
    assert re.search(r"\brelu\b", section)
