"""Sections of docs/results.md that have a layout of their own."""
