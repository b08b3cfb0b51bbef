"""Sessions: steps of a graph that scripts build, on the simulated machine."""

from placesim.tf1.session.sessions import BaseSession, InteractiveSession, Session
from placesim.tf1.session.stacks import get_default_session

__all__ = ["BaseSession", "InteractiveSession", "Session", "get_default_session"]
