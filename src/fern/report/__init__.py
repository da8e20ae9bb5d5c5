"""Figures and tables: reads results and never trains."""
