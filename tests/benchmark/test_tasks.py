"""Tasks are files under a strict schema, and narrowing one never loses a setting."""

import csv
import os
from pathlib import Path

import pytest
from tests.benchmark.support import TINY, tiny_task
from tests.errors import raises_error

from fern.benchmark.tasks import BY_DATASET, DatasetChoice, ModelChoice, read_task, task_from_mapping, task_names
from fern.errors import FernError
from fern.models import model_names
from fern.models.registry import model_entry
from fern.systems import scenario

PAPER = Path(__file__).parents[2] / "src" / "fern" / "benchmark" / "tables" / "paper_numbers"


def test_the_papers_tables_and_each_question_of_ours_have_their_task():
    papers = ["ablation", "detailed", "footprint", "recency", "shock"]
    assert task_names() == sorted([*papers, "field", "long", "noise", "quick", "real", "spread", "training", "author"])


def test_the_task_of_our_training_differs_from_the_shock_task_in_its_training_alone():
    ours, shock = read_task("training"), read_task("shock")
    alike = ("datasets", "context_length", "horizons", "split", "scaling", "model_preset")
    assert [getattr(ours, name) for name in alike] == [getattr(shock, name) for name in alike]
    assert (ours.train, shock.train) == ({"preset": "default"}, {"preset": "shock"})


@pytest.mark.parametrize("name", task_names())
def test_a_task_that_comes_with_fern_is_whole(name):
    task = read_task(name)
    assert task.name == name
    assert task.title
    for choice in task.models:
        assert choice.model == "oracle" or choice.model in model_names()
        assert choice.preset in (None, BY_DATASET) or choice.preset in model_entry(choice.model).presets


def printed_rows() -> list[dict[str, str]]:
    """The lines of the paper's shock table; those that start with # are comments."""
    lines = (PAPER / "shock.csv").read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def test_the_shock_task_covers_the_papers_shock_table_under_its_protocol():
    task = read_task("shock")
    rows = printed_rows()
    assert len(task.datasets) == len({row["dataset"] for row in rows}) == 23
    assert {choice.model for choice in task.models} >= {row["model"] for row in rows}
    assert len({row["model"] for row in rows}) == 7
    assert (task.context_length, task.horizons) == (336, (336,))
    assert task.seeds == (7, 1955)
    assert task.split == "shock"
    assert task.train == {"preset": "shock"}
    assert {c.dataset for c in task.datasets if c.cleaning == "paper"} == {"ETTh1", "ETTm1"}


def test_the_shock_task_has_the_two_rivals_that_the_paper_does_not():
    printed = {row["model"] for row in printed_rows()}
    assert {choice.model for choice in read_task("shock").models} - printed == {
        "analog",
        "polymap",
        "last-value",
        "oracle",
    }


def test_the_noise_task_sees_each_flow_exactly_and_with_two_noises():
    task = read_task("noise")
    seen = {(choice.dataset, choice.noise) for choice in task.datasets}
    flows = ("LORENZ_BASE", "ROSSLER_BASE", "CHUA_BASE", "LORENZ96_BASE")
    assert seen == {(name, noise) for name in flows for noise in (0.0, 0.01, 0.05)}


def test_horizons_of_the_long_task_are_many_lyapunov_times():
    task = read_task("long")
    (horizon,) = task.horizons
    for choice in task.datasets:
        plan = scenario(choice.dataset)
        assert horizon * plan.dt * plan.lyapunov_exponent > 5.0


def test_noise_can_be_put_on_any_task():
    task = read_task("quick").narrowed(datasets=["LORENZ_PARAM", "OU_PARAM"], noise=[0.0, 0.02])
    assert [(c.dataset, c.steps, c.noise) for c in task.datasets] == [
        ("LORENZ_PARAM", 9000, 0.0),
        ("LORENZ_PARAM", 9000, 0.02),
        ("OU_PARAM", 6000, 0.0),
        ("OU_PARAM", 6000, 0.02),
    ]
    assert len(read_task("noise").narrowed(noise=[0.1]).datasets) == 4


def test_the_detailed_task_covers_the_papers_detailed_tables_under_their_protocol():
    task = read_task("detailed")
    with (PAPER / "detailed.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {str(horizon) for horizon in task.horizons} == {row["horizon"] for row in rows}
    assert {choice.model for choice in task.models} >= {row["model"] for row in rows}
    assert len(task.datasets) == len({row["dataset"] for row in rows})
    assert task.seeds == (7, 1955, 2023, 4)
    assert task.split == "detailed"
    assert all(choice.cleaning == "none" for choice in task.datasets)


def test_the_ablation_task_has_the_base_and_every_variant_of_the_paper():
    with (PAPER / "ablation.csv").open() as file:
        variants = {row["variant"] for row in csv.DictReader(file)}
    assert {choice.preset or "base" for choice in read_task("ablation").models} - {"paper-compact"} == variants


def test_a_name_alone_stands_for_a_model_or_dataset_and_may_carry_a_preset():
    task = tiny_task(models=["fern:no-rotation", {"model": "dlinear", "settings": {"kernel": 5}}], datasets=["OU_BASE"])
    assert task.models == (
        ModelChoice(model="fern", preset="no-rotation"),
        ModelChoice(model="dlinear", settings={"kernel": 5}),
    )
    assert task.datasets == (DatasetChoice(dataset="OU_BASE"),)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sedes": [7]}, "unknown setting 'sedes': did you mean 'seeds'"),
        ({"schema": 2}, "schema: got 2, this version of fern reads 1"),
        ({"models": []}, "models: is empty"),
        ({"models": [{"modell": "fern"}]}, "models\\[0\\]: unknown setting 'modell': did you mean 'model'"),
        ({"models": [3]}, "models\\[0\\]: got 3, needs a name or a table"),
        ({"datasets": [{"dataset": "OU_BASE", "stepps": 5}]}, "did you mean 'steps'"),
        ({"datasets": [{"dataset": "OU_BASE", "noise": -1.0}]}, "noise: got -1.0"),
        ({"split": "shok"}, "unknown split 'shok': did you mean 'shock'"),
        ({"scaling": "window"}, "scaling"),
        ({"horizons": [0]}, "horizons: got 0"),
        ({"seeds": [7, 7]}, "seeds: .* contains duplicates"),
        ({"seeds": ["x"]}, "seeds"),
        ({"train": {"seed": 3}}, "the seed cannot be set here"),
    ],
)
def test_a_mistake_in_a_task_is_named(change, message):
    with pytest.raises(FernError, match=message):
        tiny_task(**change)


def test_a_task_without_a_schema_is_refused():
    with pytest.raises(FernError, match=r"mine\.toml: schema: is missing"):
        task_from_mapping({"models": ["fern"]}, name="mine", where="mine.toml")


def test_an_unknown_task_is_answered_with_the_nearest_and_a_missing_file_by_its_name():
    with pytest.raises(FernError, match="did you mean 'shock'"):
        read_task("shocks")
    with pytest.raises(FernError, match=r"mine\.toml: no such file"):
        read_task("mine.toml")


def test_a_scenario_file_is_found_beside_the_task_file(tmp_path):
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "own.toml").write_text('system = "garch"\nsteps = 500\ndt = 1.0\n')
    (folder / "mine.toml").write_text(
        'schema = 1\nmodels = ["dlinear"]\ndatasets = ["own.toml"]\nhorizons = [4]\nseeds = [1]\n'
    )
    assert read_task(folder / "mine.toml").datasets[0].dataset == str(folder / "own.toml")


def test_narrowing_keeps_the_settings_of_what_stays():
    task = tiny_task(models=["fern", "fern:no-rotation", "dlinear"])
    assert [c.preset for c in task.narrowed(models=["fern"]).models] == [None, "no-rotation"]
    assert [c.preset for c in task.narrowed(models=["fern:no-rotation"]).models] == ["no-rotation"]
    narrowed = task.narrowed(datasets=["OU_PARAM"], seeds=[1, 2], horizons=[6])
    assert narrowed.datasets[0].steps == TINY["datasets"][0]["steps"]
    assert (narrowed.seeds, narrowed.horizons) == ((1, 2), (6,))


def test_narrowing_to_what_the_task_does_not_have_adds_it():
    task = tiny_task().narrowed(models=["seasonal-naive"], datasets=["GARCH_BASE"])
    assert task.models == (ModelChoice(model="seasonal-naive"),)
    assert task.datasets == (DatasetChoice(dataset="GARCH_BASE"),)


def test_narrowed_horizons_hold_for_datasets_with_their_own():
    task = tiny_task(datasets=[{"dataset": "OU_PARAM", "horizons": [4]}])
    assert task.narrowed(horizons=[6]).datasets[0].horizons is None


def test_a_pipe_is_no_task_file_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "task.toml")
    with raises_error(where="task.toml"):
        read_task(tmp_path / "task.toml")
