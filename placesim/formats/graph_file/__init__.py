"""The graph file: YAML or JSON <-> GraphFile.

- `reader` is the way in, `writer` the way out (in the raw form); `overrides` reads what options say in the file's language
- `yaml_tree` makes a tree of the text that knows its lines; `plain_values` and `node_attrs` make values of what stands in it
- `entry_pieces` cuts a long list of nodes, `alike_entries` makes nodes of entries that are written alike, of one of the
  `entry_kinds`; `flow_lines` and `entry_trees` make trees of the others
- `entries` hands each entry of `nodes` on: `node_entries` (one op), `variable_entries`, `scope_entries`, `training_entries`
  (`training_reader` reads what stands in them); `references` finds what their inputs name, `scoped_names` what is named how in
  which scope, `loops` the edges that lead back
- `raw_nodes` reads NodeDefs as they stand (`raw: true`, and the bodies of functions) for the importer that GraphDefs go through
- `functions`, `devices`, `config` and `steps` read the sections of these names (`run`, `fetch` and `feed`: `steps`)
"""
