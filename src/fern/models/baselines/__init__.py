"""The paper's six baselines and two rivals that are fitted to rows, one to a file."""
