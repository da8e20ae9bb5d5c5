"""Progress of a sweep: the display and the remaining time."""
