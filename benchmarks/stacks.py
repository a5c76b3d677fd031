"""Stacks of networks: folds and a sweep on two cores, one network's step by the size of the stack, where time goes."""

import contextlib
import cProfile
import itertools
import pstats
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import dask
import distributed
import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from numba.core.dispatcher import Dispatcher
from torch import Tensor, nn
from torch_geometric.loader import DataLoader

from benchmarks.kernels import check_equal
from benchmarks.measuring import Measurement, Session, contest_of_reports, cpu_seconds_of, seconds_of
from benchmarks.single import SingleBatch, SingleNetwork, SingleTraining, train_single
from benchmarks.training import DATASET, LEARNED, TOLERANCE, PygNetwork, pyg_peer
from leap.models import kernels, noise
from leap.models.adam import StackAdam
from leap.models.network import Network
from leap.models.stack import Stack
from leap.pipeline import Context, TrainOptions, Workforce, sweep, train
from leap.pipeline.cluster import KEEP_MEMORY, employ
from leap.pipeline.engine.fold import FoldData
from leap.pipeline.engine.jobs import FoldJob, make_jobs
from leap.pipeline.engine.prepare import prepare
from leap.pipeline.engine.requests import RunRequest
from leap.pipeline.engine.run_folder import RunFolder
from leap.pipeline.experiments.expand import SweepSelection, expand
from leap.pipeline.experiments.sweep_file import load
from leap.pipeline.reports.figures import COLORS, INK, MUTED, SETTINGS, new_figure, to_png, to_svg
from leap.pipeline.training.objective import CrossEntropy
from leap.store import Store
from leap.store.errors import WorkFailedError

SIZES = (1, 2, 5, 10, 25, 50)
FOLDS_TARGET, SWEEP_TARGET, PYG_TARGET = 3.0, 5.0, 25.0
PROCESSES = 2
TURNS = 2
"""Of what takes many seconds."""
STEPS = 100
"""Steps of single networks in a turn."""
PROFILED = 25

Step = Callable[[], object]


def measure_stacks(session: Session, epochs: int = 20, sizes: Sequence[int] = SIZES) -> Iterator[Measurement]:
    """Compare folds and a sweep with single folds on two cores, and a step with that of PyG alone in one process.

    Parameters
    ----------
    epochs : of every fold, ours and the rival's; sweeps for results take about 60 until they stop early.
    """
    store = Store.open(session.folder / "stacks")
    with torch.random.fork_rng(devices=[]):
        yield _measure_steps(session, Context(store, workforce=Workforce(0)), sizes)
    with _workers() as workforce:
        context = Context(store, workforce=workforce)
        yield _measure_folds(session, context, epochs)
        yield _measure_sweep(session, context, epochs)


@contextlib.contextmanager
def _workers() -> Iterator[Workforce]:
    """Provide processes that stay, so that nobody's time has their start in it; set up as the engine does its own."""
    with (
        dask.config.set(KEEP_MEMORY),
        distributed.LocalCluster(
            n_workers=PROCESSES,
            threads_per_worker=1,
            dashboard_address="localhost:0",
            scheduler_kwargs={"dashboard": False},
            env={"NUMBA_NUM_THREADS": "1"},
        ) as cluster,
    ):
        yield Workforce(scheduler=cluster.scheduler_address)


def _measure_folds(session: Session, context: Context, epochs: int) -> Measurement:
    options, runs = TrainOptions(network=LEARNED, epochs=epochs), session.folder / "runs"
    session.note(f"{options.folds} folds, {epochs} epochs each, in stacks and one by one")

    def ours() -> None:
        metrics = train(DATASET, options, context, runs=runs, force=True).metrics
        _check_epochs([metrics], epochs)

    jobs = _jobs([RunRequest(DATASET, options)], context, session.folder)
    seconds = _contest(session, ours, jobs, context)
    what = f"{options.folds} folds of nomp, LEAP-L conv1d on {DATASET}, {epochs} epochs, {PROCESSES} processes"
    return Measurement("stacks", f"{what}, against single folds", seconds["ours"], seconds["single"], FOLDS_TARGET)


def _measure_sweep(session: Session, context: Context, epochs: int) -> Measurement:
    file, selection = load("compare"), SweepSelection(instead={"seeds": 1, "epochs": epochs})
    requests, numbers = expand(file, selection), itertools.count()
    session.note(f"the sweep {file.name}, {len(requests)} runs of {epochs} epochs, in stacks and fold by fold")

    def ours() -> None:
        result = sweep(file, context, selection=selection, runs=session.folder / f"sweep-{next(numbers)}")
        _check_epochs([outcome.metrics for outcome in result.outcomes], epochs)

    jobs = _jobs(requests, context, session.folder)
    seconds = _contest(session, ours, jobs, context)
    what = f"sweep {file.name} on {DATASET}, {len(jobs)} folds, {epochs} epochs, {PROCESSES} processes"
    return Measurement("stacks", f"{what}, against single folds", seconds["ours"], seconds["single"], SWEEP_TARGET)


def _check_epochs(found: Sequence[dict[str, Any] | None], epochs: int) -> None:
    for metrics in found:
        met = None if metrics is None else [fold["epochs"] for fold in metrics["folds"]]
        if met is None or set(met) != {epochs}:
            raise WorkFailedError(f"folds were trained for {met} epochs instead of {epochs}. Nothing can be compared.")


def _jobs(requests: Sequence[RunRequest], context: Context, folder: Path) -> list[FoldJob]:
    """Return all folds of some runs, whose artifacts are made if they are missing."""
    return [
        job
        for number, request in enumerate(requests)
        for job in make_jobs(
            prepare(request.dataset, request.options, context),
            RunFolder(folder / f"single-{number}"),
            context,
            label="",
            seconds=0.0,
            memory_gb=2.0,
            checkpoint_steps=None,
        )
    ]


def _contest(session: Session, ours: Callable[[], None], jobs: list[FoldJob], context: Context) -> dict[str, float]:
    def single() -> None:
        done: list[list[float]] = []
        with employ(context.workforce, len(jobs), 0.0) as runner:
            runner.run(train_single, [(job,) for job in jobs], done.append)
        if len(done) != len(jobs) or not np.isfinite(done).all():
            raise WorkFailedError(f"{len(done)} of {len(jobs)} single folds were trained. Nothing can be compared.")

    rivals = {"ours": partial(seconds_of, ours), "single": partial(seconds_of, single)}
    return contest_of_reports(rivals, min(session.repeats, TURNS))


def _measure_steps(session: Session, context: Context, sizes: Sequence[int]) -> Measurement:
    """Compare CPU times of one thread; what is left for the session is a table, a plot and a profile."""
    options = TrainOptions(network=LEARNED)
    requests = [
        RunRequest(DATASET, options.model_copy(update={"seed": options.seed + number}))
        for number in range(-(-max(sizes) // options.folds))
    ]
    jobs = _jobs(requests, context, session.folder)
    _check_single(jobs[0])
    session.note(f"steps in stacks of {', '.join(map(str, sizes))}, of a single network, and with PyG alone")
    steps: dict[str, Step] = {f"{size}": stack_steps(jobs[:size]) for size in sizes}
    rivals = {name: partial(_seconds_a_step, step, int(name), STEPS) for name, step in steps.items()}
    rivals["single"] = partial(_seconds_a_step, single_steps(jobs[0]), 1, STEPS)
    rivals["pyg"] = partial(_seconds_a_step, pyg_steps(*pyg_peer(context, options)), 1, STEPS // 10)
    seconds = contest_of_reports(rivals, session.repeats)
    best = min(sizes, key=lambda size: seconds[f"{size}"])
    session.tables["CPU milliseconds of one network's step"] = [
        {
            "networks": name,
            "milliseconds": round(taken * 1e3, 4),
            "against a single network": round(seconds["single"] / taken, 2),
            "against PyG alone": round(seconds["pyg"] / taken, 1),
        }
        for name, taken in seconds.items()
    ]
    session.tables[f"a network's step in a stack of {best}"] = profile(
        steps[f"{best}"], best, seconds[f"{best}"], PROFILED
    )
    if session.out is not None:
        points = {size: seconds[f"{size}"] for size in sizes}
        with rc_context(SETTINGS):
            figure = draw_steps(points, seconds["single"], seconds["pyg"])
            (session.out / "stacks.svg").write_text(to_svg(figure))
            (session.out / "stacks.png").write_bytes(to_png(figure))
    what = f"step of nomp, LEAP-L conv1d in a stack of {best}, for each network and in one process"
    ours, peer = seconds[f"{best}"], seconds["pyg"]
    return Measurement("stacks", f"{what}, against PyG alone", ours, peer, PYG_TARGET)


def _seconds_a_step(step: Step, networks: int, steps: int) -> float:
    count = max(3, steps // networks)

    def work() -> None:
        for _ in range(count):
            step()

    return cpu_seconds_of(work) / count / networks


def _check_single(job: FoldJob) -> None:
    """Refuse to compare with a network that computes something else."""
    config, facts = job.options.network, job.facts
    states = [Network(config, facts).state_dict() for _ in range(2)]
    stack, single = Stack(config, facts), SingleNetwork(config, facts).eval()
    stack.add(states)
    single.load_state_dict(states[1])
    part = FoldData(job).part(job, "val")
    batch = part.batch([next(part.picks())])
    ways: dict[str, Callable[[], Tensor]] = {
        "ours": partial(batch.scores, stack, np.array([1])),
        "single": partial(single, batch.x, batch.nodes),
    }
    check_equal("a network of a stack", ways, TOLERANCE)


def stack_steps(jobs: Sequence[FoldJob]) -> Step:
    """Return what takes one step of all networks: the next batch of each assembled, forward, backward and Adam."""
    first, count = jobs[0], len(jobs)
    data, seeds = FoldData(first), np.array([job.options.seed for job in jobs])
    parts = [data.part(job, "train") for job in jobs]
    stack = Stack(first.options.network, first.facts)
    adam, losses_of = StackAdam(stack), CrossEntropy.together([CrossEntropy()] * count)
    stack.add([Network(job.options.network, job.facts).state_dict() for job in jobs])
    adam.add([None] * count)
    waiting = [itertools.chain.from_iterable(map(part.picks, itertools.count())) for part in parts]
    numbers, slots, rates = itertools.count(), np.arange(count), [job.options.lr for job in jobs]

    def step() -> None:
        batch = parts[0].batch([next(picks) for picks in waiting])
        assert batch.y is not None
        scores = batch.scores(stack, slots, noise.keys(seeds, 0, next(numbers)))
        losses = losses_of(scores, batch.y, batch.ptr)
        losses.backward(torch.ones_like(losses))
        adam.step(stack.gradients(), rates)

    return step


def single_steps(job: FoldJob) -> Step:
    """Return what takes one step of a single network."""
    training = SingleTraining(job)
    waiting = itertools.chain.from_iterable(map(training.stream("train").epoch, itertools.count()))
    return lambda: training.step(SingleBatch.of(next(waiting)))


def pyg_steps(network: PygNetwork, graphs: list[Any], options: TrainOptions) -> Step:
    """Return what takes one step of the peer that finds neighbourhoods with PyG at every step."""
    network.train()
    optimizer = torch.optim.Adam(network.parameters(), lr=options.lr)
    loader = DataLoader(graphs, options.batch_size, shuffle=True)
    waiting = itertools.chain.from_iterable(itertools.repeat(loader))

    def step() -> None:
        batch = next(waiting)
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(batch), batch.y).backward()
        optimizer.step()

    return step


def profile(step: Step, networks: int, seconds: float, count: int) -> list[dict[str, Any]]:
    """Return where a network's step spends its time: compiled loops by name, torch, and Python with all else.

    A profiler makes Python slower and the rest hardly: Python's part is what the others leave of a step's time.

    Parameters
    ----------
    seconds : of a network's step without a profiler.
    count : steps to look at.
    """
    profiler, threads = cProfile.Profile(time.process_time), torch.get_num_threads()
    torch.set_num_threads(1)  # as the step was timed; others would count while they wait
    try:
        profiler.enable()
        for _ in range(count):
            step()
        profiler.disable()
    finally:
        torch.set_num_threads(threads)
    found: dict[tuple[str, str], float] = {}
    for (file, _, name), (_, _, own, _, _) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        module = sys.modules.get(f"{kernels.__name__}.{Path(file).stem}")
        if isinstance(getattr(module, name, None), Dispatcher):
            where = ("compiled loop", f"{Path(file).stem}.{name}")
        elif file == "~" and "torch" in name:
            where = ("torch", "its operations and its graph")
        else:
            continue
        found[where] = found.get(where, 0.0) + own / count / networks
    found["Python", "and all else"] = max(0.0, seconds - sum(found.values()))
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return [
        {"where": kind, "what": name, "microseconds": round(float(own) * 1e6, 2), "share": f"{own / seconds:.1%}"}
        for (kind, name), own in ordered
        if own >= 0.001 * seconds
    ]


def draw_steps(points: dict[int, float], single: float, pyg: float) -> Figure:
    """Draw the time of a network's step by the size of its stack, and those of the two rivals as lines."""
    title = f"One network's step: nomp, LEAP-L conv1d\n{DATASET}, batches of 16, one thread"
    figure, axes = new_figure(title, 2.2, right=0.2)
    sizes, times = list(points), [taken * 1e3 for taken in points.values()]
    axes.loglog(sizes, times, "o-", color=COLORS["leap-l"], markersize=4)
    for size, taken in zip(sizes, times, strict=True):
        axes.annotate(f"{taken:.2f}", (size, taken), (0, 5), textcoords="offset points", ha="center", fontsize=8)
    for name, taken in (("PyG alone", pyg), ("one network, torch's modules", single)):
        axes.axhline(taken * 1e3, color=MUTED, linewidth=1, linestyle="--")
        place = (max(sizes), taken * 1e3)
        axes.annotate(f"{name}, {taken * 1e3:.1f}", place, (0, 3), textcoords="offset points", ha="right", color=INK)
    axes.set_xticks(sizes, map(str, sizes))
    axes.minorticks_off()
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if min(times) / 2 <= tick <= 2e3 * pyg]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_ylim(min(times) / 1.6, pyg * 1.8e3)
    axes.grid(axis="y")
    axes.set_xlabel("networks in the stack")
    axes.set_ylabel("milliseconds of CPU")
    return figure
