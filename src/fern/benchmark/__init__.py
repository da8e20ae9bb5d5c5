"""The benchmark: declarative tasks, runs that resume, rows with provenance, and tables beside the paper's."""
