"""The manual's pages: their parts, and what a number or a heading finds."""

from __future__ import annotations

import pytest

from placesim.cli.manual_pages import find_sections, plain_number, read_page, read_parts, topics

PAGE = """# A page: of a test

First words.

## 1. Fish

**1.1** A rule about fish,
over two lines.

- **1.1a** its first part
  - **1.1a i** a part of that
  - **1.1a ii** another
- **1.1b** its second part

What else is of 1.1.

**1.2** Another rule.

**1.20** A rule with a longer number.

## 2. Birds

### 2.1 Small birds

```text
## no heading
**2.9** no rule
```

### Large ones

Words about large birds.

## Appendix A. More about fish

The end.
"""


def test_a_section_goes_up_to_the_next_heading_of_its_level() -> None:
    birds = find_sections(PAGE, "2")
    assert birds.startswith("## 2. Birds\n")
    assert birds.endswith("Words about large birds.\n")
    assert find_sections(PAGE, "2.1") == find_sections(PAGE, "small birds")
    assert find_sections(PAGE, "2.1").endswith("**2.9** no rule\n```\n")


def test_a_rule_stands_under_its_heading_with_all_its_parts() -> None:
    rule = find_sections(PAGE, "1.1")
    assert rule.startswith("## 1. Fish\n\n**1.1** A rule about fish,\nover two lines.\n")
    assert rule.endswith("What else is of 1.1.\n")
    assert find_sections(PAGE, "1.2") == "## 1. Fish\n\n**1.2** Another rule.\n"


def test_a_part_of_a_rule_is_itself_alone() -> None:
    assert find_sections(PAGE, "1.1a").splitlines()[2:] == [
        "- **1.1a** its first part",
        "  - **1.1a i** a part of that",
        "  - **1.1a ii** another",
    ]
    assert find_sections(PAGE, "1.1a i").splitlines()[2:] == ["- **1.1a i** a part of that"]
    assert find_sections(PAGE, "1.1b").splitlines()[2:] == ["- **1.1b** its second part"]


@pytest.mark.parametrize("wanted", ["1.1a ii", "1.1aii", "1.1a (ii)", "1.1A II", "(1.1a ii)", "rule 1.1a ii"])
def test_a_number_may_be_written_in_many_ways(wanted: str) -> None:
    assert find_sections(PAGE, wanted).splitlines()[2:] == ["- **1.1a ii** another"]
    assert plain_number(wanted) == "1.1aii"


def test_an_exact_heading_comes_before_part_of_one() -> None:
    assert find_sections(PAGE, "fish").startswith("## 1. Fish\n")
    assert "Appendix" not in find_sections(PAGE, "fish")
    assert find_sections(PAGE, "birds") == find_sections(PAGE, "2")
    assert find_sections(PAGE, "about").startswith("## Appendix A.")
    assert find_sections(PAGE, "appendix A") == find_sections(PAGE, "about")


def test_all_sections_with_a_word_are_found() -> None:
    found = find_sections(PAGE, "l")
    assert found.index("### 2.1 Small birds") < found.index("### Large ones")


def test_the_title_stands_for_the_page_where_nothing_else_does() -> None:
    assert find_sections(PAGE, "of a test") == PAGE


@pytest.mark.parametrize("wanted", ["3", "2.9", "1.1c", "whales"])
def test_what_there_is_not(wanted: str) -> None:
    assert find_sections(PAGE, wanted) == ""


@pytest.mark.slow
def test_every_page_has_a_title_and_every_part_is_found() -> None:
    assert {"graph-file", "placement", "command-line", "contributing", "architecture"} <= set(topics())
    for topic, title in topics().items():
        text = read_page(topic)
        assert title
        assert text.endswith("\n")
        parts = read_parts(text)
        for part in parts[:: len(parts) // 20 + 1]:
            assert find_sections(text, part.number or part.title), (topic, part)


@pytest.mark.parametrize("wanted", ["7.2", "7.2c i", "5.3d", "6.4", "9.8", "6.3 B2", "12.1.3", "section 5"])
def test_the_rules_that_are_cited_are_found(wanted: str) -> None:
    found = find_sections(read_page("placement"), wanted)
    assert wanted.removeprefix("section ") in found
    assert len(found) < 25_000
