"""Public forecasting tasks by their published protocols, our rows on them, and the rows that others published."""
