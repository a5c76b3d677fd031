"""Which artifacts may go: garbage collection and removal, planned first and carried out second."""

import math
import time
from dataclasses import dataclass

from leap.store.artifact import BUILDS, Artifact, builds_of, erase, folder_of
from leap.store.build import read_by_builders
from leap.store.errors import ArtifactInUseError, DamagedArtifactError, InvalidInputError
from leap.store.index import drop, tidy
from leap.store.lock import exclusive
from leap.store.manifest import MANIFEST
from leap.store.store import ArtifactStore
from leap.store.usage import USAGE

SECONDS_A_DAY = 86_400.0
GRACE_SECONDS = 3_600.0  # what was written less than this ago may be work under way, whatever --keep-days says


@dataclass(frozen=True)
class Verdict:
    """Whether an artifact stays, and why."""

    artifact: Artifact
    keep: bool
    reason: str


def plan_collection(store: ArtifactStore, keep_days: float = 14.0, now: float | None = None) -> list[Verdict]:
    """Judge every artifact.

    Kept is what is tagged, pinned, used by a recorded run whose folder is not gone, named by a stage manifest, read by
    a build under way or used in the last `keep_days` days, and all that such artifacts were made from.

    Raises
    ------
    DamagedReferenceError
        If a tag or the record of a run cannot be read.
    InvalidInputError
        If `keep_days` is no number of days.
    """
    if not (math.isfinite(keep_days) and keep_days >= 0):
        raise InvalidInputError(f"keep_days is {keep_days}: give a number of days, 0 or more.")
    artifacts = {artifact.key: artifact for artifact in store.list()}
    return _judge(store, artifacts, keep_days, time.time() if now is None else now)


def _judge(store: ArtifactStore, artifacts: dict[str, Artifact], keep_days: float, now: float) -> list[Verdict]:
    store.references.require_readable()
    reasons: dict[str, str] = {}
    for tag, key in store.references.tags().items():
        reasons.setdefault(key, f"tagged {tag}")
    for key in store.references.pins():
        reasons.setdefault(key, "pinned")
    gone = set(store.references.gone_runs())
    for run, keys in store.references.runs().items():
        for key in keys if run not in gone else ():
            reasons.setdefault(key, f"used by run {run}")
    for path, keys in store.references.stages().items():
        for key in keys:
            reasons.setdefault(key, f"named by {path}")
    for made in store.location.names(BUILDS):
        for key in read_by_builders(store.location, made) if not _is_stale(store, made, keep_days, now) else ():
            reasons.setdefault(key, f"read to make {made[:12]}")
    for key in artifacts:
        days = (now - store.usage(key).last_used) / SECONDS_A_DAY
        if days < keep_days:
            reasons.setdefault(key, f"used {days:.1f} days ago")
    pending = [key for key in reasons if key in artifacts]
    while pending:
        child = artifacts[pending.pop()]
        for key in child.manifest.inputs.values():
            if key in artifacts and key not in reasons:
                reasons[key] = f"{child.kind} {child.key[:12]} was made from it"
                pending.append(key)
    return [
        Verdict(artifact, key in reasons, reasons.get(key, f"not used for {keep_days:g} days"))
        for key, artifact in artifacts.items()
    ]


def carry_out(
    store: ArtifactStore, verdicts: list[Verdict], keep_days: float = 14.0, now: float | None = None
) -> list[Verdict]:
    """Remove what a plan condemns, and return the final verdicts.

    A run may have been recorded, or a tag set, since the plan was made. The condemned are hidden first and judged
    again; what is referred to by then comes back. Whoever records a reference and then finds its artifacts
    published can rely on them.
    """
    artifacts = {verdict.artifact.key: verdict.artifact for verdict in verdicts}
    condemned = [verdict.artifact.key for verdict in verdicts if not verdict.keep]
    for key in condemned:
        with exclusive(store.location, key):
            store.location.remove(f"{folder_of(key)}/{MANIFEST}")
    final = _judge(store, artifacts, keep_days, time.time() if now is None else now) if condemned else verdicts
    spared = {verdict.artifact.key for verdict in final if verdict.keep}
    for key in spared.intersection(condemned):
        with exclusive(store.location, key):
            if store.missing([key]):
                path = f"{folder_of(key)}/{MANIFEST}"
                store.location.write_bytes(path, artifacts[key].manifest.encode(), durable=True)
    # What somebody has made again meanwhile stays.
    going = [key for key in store.missing(condemned) if key not in spared]
    remove(store, going)
    for key in going:
        drop(store.location, artifacts[key].manifest)
    # What was kept stays: should nothing refer to it any more, it goes next time.
    return [new if not old.keep else old for old, new in zip(verdicts, final, strict=True)]


def stale_builds(store: ArtifactStore, keep_days: float = 14.0, now: float | None = None) -> list[str]:
    """Keys of unfinished artifacts, and of what is left of builds, that nobody has touched for `keep_days` days.

    An hour is the least: a build under way is never stale.
    """
    now = time.time() if now is None else now
    return [
        key
        for key in sorted({*store.unfinished(), *store.location.names(BUILDS)})
        if _is_stale(store, key, keep_days, now)
    ]


def _is_stale(store: ArtifactStore, key: str, keep_days: float, now: float) -> bool:
    folders = [builds_of(key), *([folder_of(key)] if store.missing([key]) else [])]
    # Where the file system tells no times, nothing looks old.
    times = [info.mtime_ns or now * 1e9 for folder in folders for info in store.location.files(folder).values()]
    return now - max(times, default=0) / 1e9 > _term(keep_days)


def _term(keep_days: float) -> float:
    return max(keep_days * SECONDS_A_DAY, GRACE_SECONDS)


def remove_stale_builds(
    store: ArtifactStore, keys: list[str], keep_days: float = 14.0, now: float | None = None
) -> None:
    """Remove unfinished artifacts and what is left of builds, except where somebody has gone on meanwhile."""
    now = time.time() if now is None else now
    for key in keys:
        with exclusive(store.location, key):
            if not _is_stale(store, key, keep_days, now):
                continue
            if store.missing([key]):
                erase(store.location, key)
            store.location.remove(builds_of(key))


def stale_writes(store: ArtifactStore, keep_days: float = 14.0, now: float | None = None) -> list[str]:
    """Paths of what interrupted writes and removals left anywhere in the store, by the same rule."""
    now = time.time() if now is None else now
    touched = store.location.staged()
    return sorted(path for path, time_ns in touched.items() if now - time_ns / 1e9 > _term(keep_days))


def tidy_index(store: ArtifactStore, now: float | None = None) -> None:
    """Remove entries of the index that name no artifact, and add those that are missing."""
    now = time.time() if now is None else now
    tidy(store.location, [artifact.manifest for artifact in store.list()], now - GRACE_SECONDS)


def plan_removal(store: ArtifactStore, names: list[str], *, cascade: bool) -> list[Artifact]:
    """Return the artifacts to remove for the given keys or tags.

    Raises
    ------
    ArtifactInUseError
        If others were made from them and `cascade` does not ask for those too.
    """
    artifacts = {artifact.key: artifact for artifact in store.list()}
    chosen = {store.resolve(name) for name in names}
    while True:
        children = {
            key
            for key, artifact in artifacts.items()
            if key not in chosen and chosen & set(artifact.manifest.inputs.values())
        }
        if not children:
            break
        if not cascade:
            listing = ", ".join(f"{artifacts[key].kind} {key[:12]}" for key in sorted(children))
            raise ArtifactInUseError(
                f"others were made from what you remove: {listing}. Add --cascade to remove them too."
            )
        chosen |= children
    return [artifacts[key] for key in artifacts if key in chosen]


def unreadable(store: ArtifactStore, names: list[str]) -> list[str]:
    """Return the keys among the given keys or tags whose manifest is damaged, so that nothing else is known of them."""
    found = []
    for key in dict.fromkeys(store.resolve(name) for name in names):
        try:
            store.get(key)
        except DamagedArtifactError:
            found.append(key)
    return found


def remove(store: ArtifactStore, keys: list[str]) -> list[str]:
    """Remove artifacts with their usage, tags and pins; return the stage manifests that named them and went too."""
    gone = set(keys)
    for key in keys:
        with exclusive(store.location, key):
            erase(store.location, key)
        store.location.remove(f"{USAGE}/{key}.json")
        store.references.pin(key, pinned=False)
    for tag, key in store.references.tags().items():
        if key in gone:
            store.references.untag(tag)
    return store.references.drop_stages_naming(gone)
