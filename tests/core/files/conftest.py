"""The shell of the commands' tests."""

from tests.cli.conftest import shell

__all__ = ["shell"]
