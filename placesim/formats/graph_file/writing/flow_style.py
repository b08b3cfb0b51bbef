"""Values as one line of YAML, which both YAML 1.1 and YAML 1.2 read as the same values."""

from __future__ import annotations

import re
from typing import Any

import yaml

from placesim.formats.graph_file.parsing.yaml_tree import FLOAT_OF_1_2

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _FlowDumper(_Dumper):  # type: ignore[misc]
    """A dumper that writes every value in place, never as an alias, and quotes texts that are numbers in YAML 1.2."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_FlowDumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"(?:{FLOAT_OF_1_2})$"), list("-+.0123456789"))


def flow_yaml(value: Any) -> str:
    """Return a value as one line of YAML."""
    text = yaml.dump(value, Dumper=_FlowDumper, default_flow_style=True, width=1 << 30, sort_keys=False, allow_unicode=False)
    return str(text).removesuffix("...\n").rstrip("\n")
