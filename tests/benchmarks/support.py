"""A row as the benchmark would have written it."""

from fern.benchmark.results import RunResult


def row(
    model: str, dataset: str, mse: float, *, task: str = "shock", share: float = 0.0, **changes: object
) -> RunResult:
    given = {
        "task": task,
        "model": model,
        "preset": "default" if model in ("analog", "polymap", "oracle") else "paper",
        "dataset": dataset,
        "data_settings": {"steps": 100, "cleaning": "none"} | ({"noise": share} if share else {}),
        "data_fingerprint": f"{dataset}{share}",
        "context_length": 336,
        "horizon": 336,
        "split": "shock",
        "scaling": "none",
        "seed": 7,
        "code_version": "1",
        "status": "done",
        "metrics": {"mse": mse, "mae": mse, "wd": mse, "ept": 30.0},
    }
    return RunResult(**{**given, **changes})
