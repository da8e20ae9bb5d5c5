"""What results look like: `fern.report.figures`, `fern.report.tables`, `fern.report.pages`. Never trains."""
