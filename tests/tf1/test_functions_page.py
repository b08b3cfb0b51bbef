"""The manual's page of TensorFlow 1's functions has every public name once."""

from __future__ import annotations

import re

from placesim.cli.manual_pages import find_sections, read_page
from placesim.tf1.exports import table
from placesim.tf1.importing.missing_names import all_names


def test_every_name_stands_in_its_module_where_it_belongs() -> None:
    found: dict[str, set[str]] = {"There": set(), "Not there": set()}
    for module, section in re.findall(r"^## tf\.?(.*)\n((?:(?!## ).*\n)*)", read_page("tf1-functions"), re.MULTILINE):
        for title, names in re.findall(r"^(There|Not there):\n\n```text\n([^`]*)```$", section, re.MULTILINE):
            found[title] |= {f"{module}.{name}" if module else name for name in names.split()}
    assert found == {"There": set(table()), "Not there": all_names() - table().keys()}


def test_a_module_is_found_by_its_name() -> None:
    section = find_sections(read_page("tf1-functions"), "tf.nn")
    assert section.startswith("## tf.nn\n")
    assert re.search(r"\brelu\b", section)
