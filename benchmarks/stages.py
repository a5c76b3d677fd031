"""Stages of the pipeline: extract on romanesque, and ingest and extract on a graph that is large for one machine."""

import itertools
import json
import shutil
import sys
from collections.abc import Iterator

from benchmarks.graphs import ROMANESQUE, write_large_graph
from benchmarks.kernels import loop_seconds
from benchmarks.measuring import Measurement, Session, median_seconds, run_watched
from leap.pipeline import Context, extract, ingest
from leap.store import Store
from leap.store.errors import WorkFailedError

EXTRACT_TARGET = 20.0
LIMIT = 4 * 2**30
"""Resident bytes that no process may reach."""


def measure_extract(session: Session) -> Iterator[Measurement]:
    """Compare the whole stage (statistics, Zarr, Parquet, checksums) with PyG's loop that only finds subgraphs.

    Each repeat has a store of its own, which holds the dataset alone: nothing is known from the repeat before.
    """
    ingested = session.folder / "ingested"
    report = ingest(ROMANESQUE, context=Context(store=Store.open(ingested)))["dataset"]
    numbers = itertools.count()
    stores: list[Store] = []

    def fresh() -> None:
        folder = session.folder / f"extract-{next(numbers)}"
        shutil.copytree(ingested, folder)
        stores.append(Store.open(folder))

    def work() -> None:
        made = extract(ROMANESQUE, 1, context=Context(store=stores[-1]))
        if made["neighborhoods"].cached or not made["dataset"].cached:
            raise WorkFailedError("extract did not do exactly its own work. Nothing can be compared.")

    ours = median_seconds(work, session.repeats, fresh)
    features = Store.open(ingested).get(report.key).manifest.summary["features"]
    what = f"extract stage, 1 hop, statistics of {features} features"
    yield Measurement("extract", what, ours, loop_seconds(session, 1), EXTRACT_TARGET)


def measure_large(session: Session) -> Iterator[Measurement]:
    """Run both stages as commands of their own, as a user would, and watch the memory of all their processes."""
    folder, store = session.folder / "large", session.folder / "large-store"
    session.note(f"generating {session.nodes:,} nodes and {session.edges:,} edges")
    write_large_graph(folder, session.nodes, session.edges)
    # A process of its own for each command: the peak of one must not hide that of the next.
    leap = [sys.executable, "-m", "leap.cli.main", "--store", str(store), "--json", "--quiet"]
    commands = {
        "ingest": [*leap, "ingest", str(folder)],
        "extract, 1 hop": [*leap, "extract", str(folder), "--hops", "1", "--workers", str(session.workers)],
    }
    for what, command in commands.items():
        session.note(what)
        watched = run_watched(command)
        artifacts = json.loads(watched.output)["artifacts"]
        met = tuple(artifacts[0]["summary"][name] for name in ("nodes", "edges"))
        if met != (session.nodes, session.edges) or artifacts[-1]["cached"]:
            raise WorkFailedError(
                f"{session.nodes:,} nodes and {session.edges:,} edges were generated, and the stage stored "
                f"{met[0]:,} and {met[1]:,}, or did nothing."
            )
        for process, peak in sorted(watched.peaks.items()):
            described = f"{what}, {watched.seconds:.1f} s, peak of the process {process}, against the limit"
            yield Measurement("large", described, peak, LIMIT, 1.0, unit="bytes")
