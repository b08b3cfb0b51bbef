"""Files: access rules, reading that never blocks, and writing that never leaves half a file.

`reader` reads ordinary files and describes other paths. `writer` writes to a temporary file and renames it when complete.
`containment` keeps a path inside its directory. `locking` locks a path that several processes write. `access` decides which
files a graph may read and write.
"""
