"""Checkpoints, and the fingerprint that ties them to their run."""
