"""Learning from series: the plan that follows from the data, the ways to train, the fit itself."""
