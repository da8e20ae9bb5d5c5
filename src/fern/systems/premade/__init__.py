"""The ten premade systems, one to a file."""
