"""Which artifacts may go: garbage collection and removal, planned first and carried out second."""

import time
from dataclasses import dataclass

from leap.store.artifact import ARTIFACTS, Artifact, erase, folder_of
from leap.store.errors import ArtifactInUseError, DamagedArtifactError
from leap.store.location import STAGING_SUFFIX
from leap.store.lock import exclusive
from leap.store.manifest import MANIFEST
from leap.store.store import Store
from leap.store.usage import USAGE

SECONDS_A_DAY = 86_400.0


@dataclass(frozen=True)
class Verdict:
    """Whether an artifact stays, and why."""

    artifact: Artifact
    keep: bool
    reason: str


def plan_collection(store: Store, keep_days: float = 14.0, now: float | None = None) -> list[Verdict]:
    """Judge every artifact.

    Kept is what is tagged, pinned, used by a recorded run, named by a stage manifest or used in the last
    `keep_days` days, and all that such artifacts were made from.
    """
    now = time.time() if now is None else now
    artifacts = {artifact.key: artifact for artifact in store.list()}
    reasons: dict[str, str] = {}
    for tag, key in store.references.tags().items():
        reasons.setdefault(key, f"tagged {tag}")
    for key in store.references.pins():
        reasons.setdefault(key, "pinned")
    for run, keys in store.references.runs().items():
        for key in keys:
            reasons.setdefault(key, f"used by run {run}")
    for path, keys in store.references.stages().items():
        for key in keys:
            reasons.setdefault(key, f"named by {path}")
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


def stale_builds(store: Store, keep_days: float = 14.0, now: float | None = None) -> list[str]:
    """Names of unfinished artifacts, and of halves of removed ones, that nobody has touched for `keep_days` days."""
    now = time.time() if now is None else now
    halves = [name for name in store.location.names(ARTIFACTS) if name.endswith(STAGING_SUFFIX)]
    stale = []
    for name in [*store.unfinished(), *halves]:
        # Where the file system tells no times, nothing looks old.
        times = [info.mtime_ns or now * 1e9 for info in store.location.files(folder_of(name)).values()]
        if now - max(times, default=0) / 1e9 > keep_days * SECONDS_A_DAY:
            stale.append(name)
    return stale


def sweep(store: Store, names: list[str]) -> None:
    """Remove unfinished artifacts, except those that somebody has finished meanwhile."""
    for name in names:
        with exclusive(store.location, name):
            if not store.location.exists(f"{folder_of(name)}/{MANIFEST}"):
                erase(store.location, name)


def plan_removal(store: Store, names: list[str], *, cascade: bool) -> list[Artifact]:
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


def unreadable(store: Store, names: list[str]) -> list[str]:
    """Return the keys among the given keys or tags whose manifest is damaged, so that nothing else is known of them."""
    found = []
    for key in dict.fromkeys(store.resolve(name) for name in names):
        try:
            store.get(key)
        except DamagedArtifactError:
            found.append(key)
    return found


def remove(store: Store, keys: list[str]) -> list[str]:
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
