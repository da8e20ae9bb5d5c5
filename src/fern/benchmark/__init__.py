"""The benchmark: declarative tasks, runs that resume, and results with provenance.

Names are imported when they are first used. Tables of the results are made by `fern.benchmark.tables`.

Example:
    >>> from fern.benchmark import RunCache, RunContext, execute_run, make_plan, read_task
    >>> task = read_task("quick").narrowed(models=["last-value"], datasets=["OU_PARAM"])
    >>> [execute_run(run, RunContext(), RunCache()).result.status for run in make_plan(task).runs]
    ['done']
"""

from typing import TYPE_CHECKING

from fern._lazy import lazy_names

if TYPE_CHECKING:
    from fern.benchmark.engines import open_engine
    from fern.benchmark.execute import RunCache, RunContext, execute_run
    from fern.benchmark.fev_tasks import export_tasks
    from fern.benchmark.plan import make_plan
    from fern.benchmark.problem import load_dataset
    from fern.benchmark.results import RunResult
    from fern.benchmark.store import Store
    from fern.benchmark.sweep import run_sweep
    from fern.benchmark.tasks import DatasetChoice, ModelChoice, Task, read_task, task_names
else:  # unseen by type checkers: a __getattr__ would make every name, misspelt ones too, an Any
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "fern.benchmark.engines": ["open_engine"],
            "fern.benchmark.execute": ["RunCache", "RunContext", "execute_run"],
            "fern.benchmark.fev_tasks": ["export_tasks"],
            "fern.benchmark.plan": ["make_plan"],
            "fern.benchmark.problem": ["load_dataset"],
            "fern.benchmark.results": ["RunResult"],
            "fern.benchmark.store": ["Store"],
            "fern.benchmark.sweep": ["run_sweep"],
            "fern.benchmark.tasks": [
                "DatasetChoice",
                "ModelChoice",
                "Task",
                "read_task",
                "task_names",
            ],
        },
    )

__all__ = [
    "DatasetChoice",
    "ModelChoice",
    "RunCache",
    "RunContext",
    "RunResult",
    "Store",
    "Task",
    "execute_run",
    "export_tasks",
    "load_dataset",
    "make_plan",
    "open_engine",
    "read_task",
    "run_sweep",
    "task_names",
]
