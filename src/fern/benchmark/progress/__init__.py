"""How a sweep is told about: its display and the time that is left."""
