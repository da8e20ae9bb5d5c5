"""A fitted forecaster over time: rows that came later, what its distribution says about itself, pictures."""
