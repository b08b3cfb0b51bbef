"""Reader and writer of graph files in YAML or JSON.

- `reader` reads a graph file; the modules of `writing` write one, in readable or in raw form
- `parsing` makes trees of YAML text, with lines and columns, and has fast paths for long lists of nodes
- `plain_values` and `entries.node_attrs` convert trees to values
- `entries` reads the entries of `nodes` and `functions`: nodes, variables, scopes, conditionals, loops and training
- `sections` reads `devices`, `links`, `config`, `placement` and the steps; `sections.overrides` reads options
- `schema` is the JSON Schema of a graph file
"""
