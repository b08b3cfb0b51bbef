"""Values as one line of YAML, which `yaml_tree` reads back as the same values."""

from __future__ import annotations

from typing import Any

import yaml

from placesim.formats.graph_file.parsing.yaml_tree import NUMBER_STARTS, PLAIN_FLOAT

_SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_SafeDumper):  # type: ignore[misc]
    """A dumper that writes every value in place, never as an alias, and quotes a text such as 1e-3."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", PLAIN_FLOAT, list(NUMBER_STARTS))


def yaml_line(value: Any) -> str:
    """Return a value as one line of YAML in flow style, in ASCII."""
    text = yaml.dump(value, Dumper=_Dumper, default_flow_style=True, width=1 << 30, sort_keys=False, allow_unicode=False)
    return str(text).removesuffix("...\n").rstrip("\n")
