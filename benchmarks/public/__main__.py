"""``python -m benchmarks.public --list | --run TASK … [--model NAME …] [--seed S …] | --table``.

``--run development`` stands for all tasks whose data may be used to choose settings. Rows go to
``benchmarks/public/results/``; those that are there already are kept unless ``--again`` is given. ``--table`` shows
them beside what others published.
"""

import argparse
import sys

from benchmarks.public.models import MODELS
from benchmarks.public.run import read_results, result_path, run, write_result
from benchmarks.public.table import judge_public, list_tasks, public_parts
from benchmarks.public.tasks import TASKS, Task, named_task
from fern.errors import FernError


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0, or 1 where a run could not be made."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.public", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--list", action="store_true", help="the tasks, and whether their data is here")
    what.add_argument("--run", nargs="+", metavar="TASK", help="tasks to run, or 'development' for all of those")
    what.add_argument(
        "--table", action="store_true", help="the committed rows beside published ones, with what they say"
    )
    parser.add_argument("--model", nargs="+", default=["seasonal-naive", "fern"], metavar="NAME")
    parser.add_argument("--seed", nargs="+", type=int, default=[0], metavar="S")
    parser.add_argument("--again", action="store_true", help="replace rows that are there")
    options = parser.parse_args(arguments)
    try:
        if options.list:
            print(list_tasks())
        elif options.table:
            results = read_results()
            print("\n".join([*judge_public(results), "", *(part.markdown() for part in public_parts(results))]))
        else:
            return _run_all(_chosen(options.run), options.model, options.seed, again=options.again)
    except FernError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _chosen(names: list[str]) -> list[Task]:
    if names == ["development"]:
        return [task for task in TASKS.values() if task.development]
    return [named_task(name) for name in names]


def _run_all(tasks: list[Task], models: list[str], seeds: list[int], *, again: bool) -> int:
    failed = 0
    for name in models:
        for task in tasks:
            for seed in seeds if MODELS.get(name) not in _WITHOUT_SEEDS else seeds[:1]:
                if result_path(task.name, name, seed).exists() and not again:
                    continue
                try:
                    row = run(task, name, seed=seed)
                except FernError as error:
                    print(f"{task.name} {name} seed {seed}: {error}", file=sys.stderr, flush=True)
                    failed = 1
                    continue
                write_result(row)
                figures = " ".join(f"{key} {value:.5g}" for key, value in row["metrics"].items())
                seconds = f"fit {row['fit_seconds']:.0f} s, forecast {row['predict_seconds']:.1f} s"
                print(f"{task.name} {name} seed {seed}: {figures}; {seconds}", flush=True)
    return failed


_WITHOUT_SEEDS = frozenset({MODELS["seasonal-naive"], MODELS["classical"], MODELS["fern-pretrained"]})
"""Models that draw nothing: one run says all."""


if __name__ == "__main__":
    sys.exit(main())
