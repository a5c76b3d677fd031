"""Cell by cell beside the paper's main table: how far ours is from each published mean, and whether LEAP leads."""

from dataclasses import dataclass, replace

from leap.pipeline.published import find
from leap.pipeline.reports.names import DATASETS, LEAPS, backbone_label, by, counted, encoding_label, minus
from leap.pipeline.reports.page import Section
from leap.pipeline.reports.runs import Key, Results, grouped
from leap.pipeline.reports.scores import settings_note
from leap.pipeline.reports.table import WITHIN, Entry, Table, Value, value_of

UPPER = 3  # places
SAME = 1e-9  # means that differ by less share a place
ABOVE, BELOW = "▴", "▾"


@dataclass(frozen=True)
class Lead:
    """How LEAP stands among all encodings of the main table, counted over networks: backbones on datasets.

    Attributes
    ----------
    networks : those with every encoding that the paper has.
    best : in how many a LEAP has the highest mean, alone or shared.
    both_upper : in how many both are among the upper three.
    """

    networks: int
    best: int
    both_upper: int


@dataclass(frozen=True)
class Reproduction:
    """Our cells of the paper's main table, each with the published value, and where LEAP stands in both."""

    values: dict[Key, Value]

    @property
    def within(self) -> int:
        """How many lie within two published standard deviations of the published mean."""
        return sum(abs(distance) <= WITHIN for distance in self.distances)

    @property
    def distances(self) -> list[float]:
        """Distances to the published means in published standard deviations."""
        return [value.distance for value in self.values.values() if value.distance is not None]

    @property
    def ours(self) -> Lead:
        """Where LEAP stands here."""
        return lead({key: value.mean for key, value in self.values.items()})

    @property
    def theirs(self) -> Lead:
        """Where LEAP stands in the paper, over the same networks."""
        return lead({key: mean for key, mean in printed().items() if key in self.values})


def printed() -> dict[Key, float]:
    """Return the means of the paper's main table."""
    return {(entry.dataset, entry.backbone or "", entry.encoding): entry.mean for entry in find("main")}


def lead(means: dict[Key, float]) -> Lead:
    """Count where LEAP leads, over the networks that have every encoding of the main table."""
    wanted = {encoding for _, _, encoding in printed()}
    networks = [{key[2]: means[key] for key in keys} for keys in grouped(means, lambda key: key[:2]).values()]
    complete = [network for network in networks if wanted <= network.keys()]
    best = both = 0
    for network in complete:
        ours = [name for name in wanted if name in LEAPS]
        above = {leap: sum(network[other] > network[leap] + SAME for other in wanted) for leap in ours}
        best += min(above.values()) == 0
        both += max(above.values()) < UPPER
    return Lead(len(complete), best, both)


def reproduction(results: Results) -> Reproduction:
    """Return the cells that the paper's main table has too, as `results.tested` chooses them."""
    values = {key: value_of(cell, "main", with_projection=True) for key, cell in results.tested.items()}
    order = by("dataset", "backbone", "encoding")
    return Reproduction(
        {
            key: value
            for key, value in sorted(values.items(), key=lambda entry: order(entry[0]))
            if value and value.published
        }
    )


def sentences(found: Reproduction) -> tuple[str, ...]:
    """Return what to say about them: how many are near, and where LEAP leads."""
    total, distances = len(printed()), found.distances
    number = len(found.values)
    here = "" if number == total else f", of which {number} {'was' if number == 1 else 'were'} run"
    above = sum(distance > WITHIN for distance in distances)
    below = sum(distance < -WITHIN for distance in distances)
    near = (
        f"The paper's main table has {total} cells{here}: {found.within} of {number} lie within two published standard "
        f"deviations of the published mean, {above} above and {below} below that."
    )
    ours, theirs = found.ours, found.theirs
    if not ours.networks:
        return (near,)
    return near, (
        f"Of {counted(ours.networks, 'combination')} of backbone and dataset, a LEAP has the highest mean, alone or "
        f"shared, in {ours.best} (in the paper {theirs.best}), and both LEAPs are among the upper three in "
        f"{ours.both_upper} (in the paper {theirs.both_upper})."
    )


def beside_the_paper(results: Results) -> Section | None:
    """Return distances to the published means in the layout of the main table, and every cell in full."""
    found = reproduction(results)
    if not found.values:
        return None
    datasets = [name for name in DATASETS if any(key[0] == name for key in found.values)]
    note = settings_note(results, datasets)
    return Section(
        "published",
        "Cell by cell beside the paper",
        sentences(found),
        (_distances(found, datasets, note), _cells(found, note)),
    )


def _distances(found: Reproduction, datasets: list[str], note: str) -> Table:
    rows = sorted({key[1:] for key in found.values}, key=by("backbone", "encoding"))
    entries = [
        (backbone_label(row[0]), encoding_label(row[1]), *(_far(found.values.get((name, *row))) for name in datasets))
        for row in rows
    ]
    caption = (
        "How far our mean lies above the published one, in published standard deviations, and in brackets in "
        f"percentage points. {ABOVE} and {BELOW} mark cells that are more than two away.{note}"
    )
    return Table(
        "published-distance",
        "Distance to the published means",
        caption,
        ("backbone", "encoding"),
        tuple(datasets),
        tuple(tuple(group) for group in grouped(entries, lambda row: row[0]).values()),
    )


def _far(value: Value | None) -> str:
    if value is None or value.distance is None or value.published is None:
        return ""
    points = value.mean * value.metric.factor - value.published.mean
    mark = "" if abs(value.distance) <= WITHIN else f" {ABOVE if value.distance > 0 else BELOW}"
    return minus(f"{value.distance:+.1f} ({points:+.1f}){mark}".replace("-0.0", "+0.0"))


def _cells(found: Reproduction, note: str) -> Table:
    rows = [(*key, value) for key, value in found.values.items()]
    return Table(
        "published",
        f"All {counted(len(rows), 'cell')}",
        f"A cell is within if its mean is at most two published standard deviations from the published mean.{note}",
        ("dataset", "backbone", "encoding"),
        ("ours", "published", "published std", "difference", "distance", "within"),
        tuple(tuple(_row(*row) for row in group) for group in grouped(rows, lambda row: row[:2]).values()),
        is_long=True,
    )


def _row(dataset: str, backbone: str, encoding: str, value: Value) -> tuple[Entry, ...]:
    theirs, distance = value.published, value.distance
    assert theirs is not None
    assert distance is not None
    return (
        dataset,
        backbone_label(backbone),
        encoding_label(encoding),
        replace(value, published=None),
        f"{theirs.mean:.1f}",
        f"{theirs.std:.1f}",
        minus(f"{value.mean * value.metric.factor - theirs.mean:+.2f}"),
        minus(f"{distance:+.2f}"),
        "yes" if abs(distance) <= WITHIN else "no",
    )
