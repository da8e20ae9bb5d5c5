"""Whether differences between models are more than chance: rank tests and the distributions behind them."""
