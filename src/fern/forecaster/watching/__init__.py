"""A fitted forecaster over time: rows that came later, what its law says about itself, pictures."""
