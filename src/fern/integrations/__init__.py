"""Other libraries: ours in theirs, and theirs in ours.

`fern.integrations.sktime`, `fern.integrations.neuralforecast` and `fern.integrations.fev` are Fern as a forecaster of
these libraries; `fern.benchmark.adapters` brings their models under our contract. Each is an optional extra, imported
where it is used; without it the error names the extra.
"""
