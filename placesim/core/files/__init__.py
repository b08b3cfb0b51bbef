"""Files: which may be touched, read so that nothing can be waited for or pulled away, written so that none is ever half there.

- `reading` reads ordinary files, and says what else a path names
- `writing` writes beside a file's place and renames what is whole
- `containment` keeps a path inside its directory
- `locking` locks a path that several processes write
- `access` says which files a graph may read and write
"""
