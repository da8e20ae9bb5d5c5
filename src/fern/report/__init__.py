"""What results look like: `fern.report.figures` and `fern.report.tables`. Reads results and never trains."""
