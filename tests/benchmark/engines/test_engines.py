"""Engines: real processes and a real Ray, killed at will; the rows are the same."""

import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
from tests.benchmark.support import InlineEngine, reproducible, tiny_plan

from fern.benchmark import execute
from fern.benchmark.engines import Advanced, Lost, open_engine, share_threads
from fern.benchmark.engines.local import THREAD_VARIABLES, LocalEngine
from fern.benchmark.engines.ray import work
from fern.benchmark.plan import make_plan
from fern.benchmark.store import Store
from fern.benchmark.sweep import run_sweep
from fern.benchmark.tasks import read_task
from fern.errors import FernError
from fern.processes import _environment

RAY = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra 'ray'")

# Twelve runs of one to two seconds, long enough to be hit while training.
TWELVE = """
schema = 1
models = ["dlinear", { model = "fern", settings = { hidden = 16, latent = 8 } }]
datasets = [{ dataset = "OU_PARAM", steps = 1500 }, { dataset = "ROSSLER_BASE", steps = 1500 }]
context_length = 48
horizons = [24]
seeds = [1, 2, 3]

[train]
preset = "shock"
epochs = 8
grace = 0
"""


def wait_for(condition, *, seconds=120.0, what="what was waited for"):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.02)


def results(folder):
    return {row.key: reproducible(row) for row in Store(folder).contents().results}


def children_of(process_id):
    """The processes started by one, their own included."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process_id)], capture_output=True, text=True, check=False)
    direct = [int(word) for word in found.stdout.split()]
    return direct + [grandchild for child in direct for grandchild in children_of(child)]


def alive(process_id):
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def command(task, folder, *options):
    """``fern bench run`` as users start it."""
    program = [sys.executable, "-m", "fern", "bench", "run", str(task), "--out", str(folder), *map(str, options)]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finished(process):
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    return output


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"cores": 2, "jobs": None, "threads": None}, (2, 1)),
        ({"cores": 2, "jobs": 1, "threads": None}, (1, 2)),
        ({"cores": 8, "jobs": 3, "threads": None}, (3, 2)),
        ({"cores": 2, "jobs": 5, "threads": None}, (5, 1)),
        ({"cores": 8, "jobs": None, "threads": 3}, (2, 3)),
        ({"cores": 2, "jobs": None, "threads": 4}, (1, 4)),
        ({"cores": 8, "jobs": 2, "threads": 1}, (2, 1)),
    ],
)
def test_cores_are_divided_fairly_among_jobs(given, expected):
    assert share_threads(**given) == expected


@pytest.mark.parametrize("name", ["jobs", "threads"])
def test_jobs_and_threads_below_one_are_refused(name):
    with pytest.raises(FernError, match=f"{name}: got 0"):
        share_threads(**{"cores": 2, "jobs": None, "threads": None, name: 0})


def test_an_unknown_engine_and_an_address_for_the_local_one_are_refused(tmp_path):
    with pytest.raises(FernError, match="did you mean 'ray'"):
        open_engine("rey", tiny_plan(), tmp_path)
    with pytest.raises(FernError, match="only the engine 'ray' takes"):
        open_engine("local", tiny_plan(), tmp_path, address="auto")


def test_the_ray_engine_says_when_ray_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(FernError, match="ray is not installed"):
        open_engine("ray", tiny_plan(), tmp_path)


def test_workers_are_born_with_their_share_of_threads_and_the_sweep_keeps_its_own(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    with _environment(dict.fromkeys(THREAD_VARIABLES, "2")):
        program = f"import os; print([os.environ[name] for name in {THREAD_VARIABLES!r}])"
        born = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert born == f"{['2'] * 4}\n"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "NUMBA_NUM_THREADS" not in os.environ


def test_a_killed_worker_is_told_and_the_next_run_gets_a_new_one(store, forked):
    slow = {"preset": "shock", "epochs": 4000, "patience": 4000, "grace": 0}
    run = tiny_plan(models=["dlinear"], train=slow).runs[0]
    with LocalEngine(store.folder, slots=1, threads=1) as engine:
        engine.submit(run)
        events = []
        wait_for(lambda: events.extend(engine.wait(0.1)) or len(events) >= 2, what="two epochs")
        assert all(isinstance(event, Advanced) for event in events)
        os.kill(engine._workers[0].process.pid, signal.SIGKILL)
        events = []
        wait_for(lambda: events.extend(engine.wait(0.1)) or any(isinstance(e, Lost) for e in events), what="the loss")
        assert events[-1] == Lost(run.key, "the worker process was killed by SIGKILL")
        # The checkpoint is there: the next worker goes on from it.
        engine.submit(run)
        events = []
        wait_for(lambda: events.extend(engine.wait(0.1)) or events, what="an epoch")
        assert events[0].epoch > 1
        worker = engine._workers[0].process.pid
    assert not alive(worker)


def test_local_processes_give_the_rows_of_this_process(store, tmp_path, forked):
    plan = tiny_plan(models=["dlinear", "last-value", "oracle"])
    run_sweep(plan, store, LocalEngine(store.folder, slots=1, threads=1))
    here = Store(tmp_path / "here")
    run_sweep(plan, here, InlineEngine(here.folder))
    assert len(results(here.folder)) == 3
    assert results(store.folder) == results(here.folder)
    for key in results(here.folder):
        mine, theirs = store.window_errors(key), here.window_errors(key)
        assert all((mine[name] == theirs[name]).all() for name in ("mse", "mae"))


@pytest.fixture(scope="module")
def twelve(tmp_path_factory):
    """The task of twelve runs, and its rows from a sweep that nothing disturbed."""
    folder = tmp_path_factory.mktemp("twelve")
    (folder / "twelve.toml").write_text(TWELVE)
    finished(command(folder / "twelve.toml", folder / "whole", "--jobs", 2))
    return folder / "twelve.toml", results(folder / "whole")


def marks(folder):
    """What a sweep leaves as it works: rows and checkpoints, with the time of each."""
    files = [*folder.glob("rows/*.json"), *folder.glob("checkpoints/*/last.safetensors")]
    return {(path, path.stat().st_mtime_ns) for path in files if path.exists()}


def kill(process, folder, *, moment, at_work=True):
    """SIGKILL the sweep a moment after it began to work (or to start up); its workers must follow it."""
    before = marks(folder)
    if at_work:
        wait_for(lambda: marks(folder) - before or process.poll() is not None, what="a sign of work")
    time.sleep(moment)
    workers = children_of(process.pid)
    process.kill()
    process.communicate()
    wait_for(lambda: not any(map(alive, workers)), seconds=30, what="the end of the workers")


@pytest.mark.slow
def test_a_sweep_killed_five_times_at_random_ends_with_the_rows_of_an_undisturbed_one(twelve, tmp_path):
    task, expected = twelve
    assert len(expected) == 12
    folder, chance = tmp_path / "killed", random.Random(2026)
    interrupted = 0
    for time_ in range(5):
        sweep = command(task, folder, "--jobs", 2)
        kill(sweep, folder, moment=chance.uniform(0.0, 2.0), at_work=time_ != 1)
        assert sweep.returncode == -signal.SIGKILL
        interrupted += any(folder.glob("checkpoints/*/last.safetensors"))
        assert results(folder).items() <= expected.items()
    finished(command(task, folder, "--jobs", 2))
    assert results(folder) == expected
    assert Store(folder).contents().damaged == ()
    assert interrupted > 0, "no kill hit a run under way: the moments must be chosen anew"
    assert list((folder / "checkpoints").iterdir()) == []


@pytest.mark.slow
def test_two_sweeps_at_once_do_no_run_twice_and_lose_none(twelve, tmp_path):
    task, expected = twelve
    folder = tmp_path / "shared"
    both = [command(task, folder, "--jobs", 1, "--threads", 1) for _ in range(2)]
    outputs = [finished(process) for process in both]
    assert results(folder) == expected
    own = [[line for line in text.splitlines() if line.startswith("[") and "another" not in line] for text in outputs]
    assert len(own[0]) + len(own[1]) == 12
    assert min(map(len, own)) > 0


@pytest.mark.slow
def test_ctrl_c_ends_a_sweep_with_its_workers_and_gives_its_claims_back(twelve, tmp_path):
    task, expected = twelve
    folder = tmp_path / "stopped"
    sweep = command(task, folder, "--jobs", 2)
    wait_for(lambda: marks(folder), what="a sign of work")
    workers = children_of(sweep.pid)
    sweep.send_signal(signal.SIGINT)
    output, _ = sweep.communicate(timeout=60)
    assert sweep.returncode == 130, output
    assert "run the same command to resume" in output
    assert "Traceback" not in output
    wait_for(lambda: not any(map(alive, workers)), seconds=30, what="the end of the workers")
    assert list((folder / "claims").iterdir()) == []
    assert results(folder).items() <= expected.items()


@pytest.mark.slow
def test_a_sweep_takes_over_from_one_that_was_killed_beside_it(twelve, tmp_path):
    task, expected = twelve
    folder = tmp_path / "shared"
    first, second = (command(task, folder, "--jobs", 1, "--threads", 1) for _ in range(2))
    kill(first, folder, moment=1.0)
    finished(second)
    assert results(folder) == expected


class FakeRay(types.ModuleType):
    """Ray's functions as far as the engine uses them; tasks are done when their results are asked for."""

    class exceptions:  # noqa: N801
        class RayError(Exception):
            pass

        class WorkerCrashedError(RayError):
            pass

    def __init__(self, *cores):
        super().__init__("ray")
        self.cores, self.calls, self.crashes = cores, [], 0

    def is_initialized(self):
        return False

    def init(self, **options):
        self.calls.append(("init", options))

    def shutdown(self):
        self.calls.append(("shutdown",))

    def nodes(self):
        return [{"Alive": True, "Resources": {"CPU": float(count)}} for count in self.cores]

    def put(self, value):
        self.calls.append(("put", value.name))
        return value

    def cancel(self, reference, force):
        self.calls.append(("cancel", force))

    def remote(self, function):
        return FakeTask(self, function, {})

    def wait(self, references, *, num_returns, timeout):
        return references[:num_returns], references[num_returns:]

    def get(self, reference):
        if self.crashes:
            self.crashes -= 1
            raise self.exceptions.WorkerCrashedError
        return reference()


class FakeTask:
    def __init__(self, ray, function, options):
        self._ray, self._function, self._options = ray, function, options

    def options(self, **options):
        return FakeTask(self._ray, self._function, {**self._options, **options})

    def remote(self, *args):
        self._ray.calls.append(("remote", self._options))
        return lambda: self._function(*args)


@pytest.fixture
def fake_ray(monkeypatch):
    ray = FakeRay(4, 2)
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray


def called(ray, name):
    return [call[1:] for call in ray.calls if call[0] == name]


def test_ray_gets_each_dataset_once_and_leaves_retries_to_the_sweep(fake_ray, store):
    plan = tiny_plan(models=["last-value", "training-mean"], datasets=["OU_BASE", "GARCH_BASE"], seeds=[1, 2])
    fake_ray.crashes = 1
    summary = run_sweep(plan, store, open_engine("ray", plan, store.folder))
    assert summary.count("done") == 8
    assert called(fake_ray, "put") == [("OU_BASE",), ("GARCH_BASE",)]
    assert len(called(fake_ray, "remote")) == 9  # one of them a second time
    options = called(fake_ray, "remote")[0][0]
    assert (options["num_cpus"], options["max_retries"]) == (1, 0)
    assert options["runtime_env"] == {"env_vars": dict.fromkeys(THREAD_VARIABLES, "1")}
    assert called(fake_ray, "shutdown") == [()]
    assert list((store.folder / "claims").iterdir()) == []


def test_ray_with_nothing_to_do_waits(fake_ray, tmp_path):
    engine = open_engine("ray", tiny_plan(), tmp_path)
    began = time.monotonic()
    assert engine.wait(0.2) == []
    assert time.monotonic() - began >= 0.2


def test_ray_started_for_the_purpose_is_local_and_quiet(fake_ray, tmp_path):
    open_engine("ray", tiny_plan(), tmp_path)
    ((options,),) = called(fake_ray, "init")
    assert options["address"] == "local"
    assert (options["include_dashboard"], options["log_to_driver"]) == (False, False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (6, 1)),
        ({"threads": 2}, (3, 2)),
        ({"threads": 3}, (1, 3)),  # one on the node of four, none on that of two
        ({"jobs": 2}, (2, 3)),
        ({"jobs": 1}, (1, 4)),  # a run fits on one node
        ({"jobs": 9}, (9, 1)),
    ],
)
def test_the_cores_of_a_cluster_are_divided_so_that_runs_fit_on_nodes(fake_ray, tmp_path, given, expected):
    engine = open_engine("ray", tiny_plan(), tmp_path, **given)
    assert (engine.slots, engine.threads) == expected


def test_a_run_that_fits_on_no_node_is_refused_and_ray_ended(fake_ray, tmp_path):
    with pytest.raises(FernError, match="the largest node of the cluster has 4 cores"):
        open_engine("ray", tiny_plan(), tmp_path, threads=5)
    assert called(fake_ray, "shutdown") == [()]


def test_a_run_on_a_gpu_asks_ray_for_one(fake_ray, store):
    plan = tiny_plan(models=["dlinear"], train={"preset": "shock", "accelerator": "gpu"})
    with open_engine("ray", plan, store.folder) as engine:
        engine.submit(plan.runs[0])
    assert called(fake_ray, "remote")[0][0]["num_gpus"] == 1
    assert called(fake_ray, "cancel") == [(True,)]


def test_a_ray_worker_that_cannot_see_the_folder_keeps_no_checkpoints(tmp_path):
    plan = tiny_plan(models=["dlinear"])
    run, dataset = plan.runs[0], next(iter(plan.datasets.values()))
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "here").touch()
    rows = []
    for token in ("here", "elsewhere"):
        rows.append(work(run, dataset, str(tmp_path), token, 1).result)
        assert (tmp_path / "checkpoints").exists() == (token == "here")
        shutil.rmtree(tmp_path / "checkpoints", ignore_errors=True)
    assert reproducible(rows[0]) == reproducible(rows[1])


def test_a_ray_worker_of_another_version_ends_the_sweep(fake_ray, store, monkeypatch):
    plan = tiny_plan(models=["last-value"])
    monkeypatch.setattr(execute, "code_version_of", lambda model, preset: "0.0.1+r1")
    with pytest.raises(FernError, match="install the same version everywhere"):
        run_sweep(plan, store, open_engine("ray", plan, store.folder))
    assert store.contents().results == ()


def test_a_sweep_that_is_told_to_end_ends_its_workers_first(tmp_path):
    (tmp_path / "twelve.toml").write_text(TWELVE)
    sweep = command(tmp_path / "twelve.toml", tmp_path / "runs", "--jobs", 1, "--threads", 1)
    wait_for(lambda: any((tmp_path / "runs").glob("claims/*")), what="a claim")
    wait_for(lambda: children_of(sweep.pid), what="a worker")
    workers = children_of(sweep.pid)
    sweep.send_signal(signal.SIGTERM)
    sweep.communicate(timeout=60)
    assert sweep.returncode == 128 + signal.SIGTERM
    wait_for(lambda: not any(map(alive, workers)), seconds=2.0, what="the end of the workers")
    assert not list((tmp_path / "runs").glob("claims/*"))


@RAY
@pytest.mark.slow
def test_a_local_ray_gives_the_same_rows(twelve, tmp_path):
    task, expected = twelve
    finished(command(task, tmp_path / "ray", "--engine", "ray", "--jobs", 2, "--threads", 1))
    assert results(tmp_path / "ray") == expected


CLUSTER = """
import sys
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
second = cluster.add_node(num_cpus=1, include_dashboard=False)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
for line in sys.stdin:
    if line.strip() == "lose":
        cluster.remove_node(second, allow_graceful=False)
        print("lost", flush=True)
    else:
        break
cluster.shutdown()
"""


@pytest.fixture
def cluster():
    """A Ray cluster of two nodes with one core each, in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
    )
    yield process, process.stdout.readline().strip()
    process.communicate("end\n", timeout=120)


@RAY
@pytest.mark.slow
def test_a_ray_cluster_of_two_nodes_gives_the_same_rows(twelve, tmp_path, cluster):
    task, expected = twelve
    output = finished(command(task, tmp_path / "ray", "--engine", "ray", "--address", cluster[1]))
    assert "2 in parallel" in output
    assert results(tmp_path / "ray") == expected


@RAY
@pytest.mark.slow
def test_a_node_lost_in_the_middle_loses_no_run(tmp_path, cluster):
    task = tmp_path / "four.toml"
    long = TWELVE.replace('"dlinear", ', "").replace("epochs = 8", "epochs = 60\npatience = 60")
    task.write_text(long.replace("seeds = [1, 2, 3]", "seeds = [1, 2]"))
    folder = tmp_path / "ray"
    sweep = command(task, folder, "--engine", "ray", "--address", cluster[1])
    # Two runs under way means one on each node.
    wait_for(lambda: len(list(folder.glob("checkpoints/*/last.safetensors"))) == 2, what="two runs under way")
    cluster[0].stdin.write("lose\n")
    cluster[0].stdin.flush()
    assert cluster[0].stdout.readline() == "lost\n"
    output = finished(sweep)
    assert "restarting" in output
    undisturbed = Store(tmp_path / "here")
    run_sweep(make_plan(read_task(task)), undisturbed, InlineEngine(undisturbed.folder))
    assert len(results(folder)) == 4
    assert results(folder) == results(undisturbed.folder)


@RAY
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "the Ray cluster at 127.0.0.1:1 cannot be reached"),
        ("ray://127.0.0.1:1", "cannot be reached"),
        ("somewhere", "address: got 'somewhere', needs HOST:PORT"),
        ("127.0.0.1:99999", "cannot be reached"),
    ],
)
def test_a_ray_cluster_that_is_not_there_is_an_error_at_once(tmp_path, address, message):
    with pytest.raises(FernError, match=message):
        open_engine("ray", tiny_plan(), tmp_path, address=address)
