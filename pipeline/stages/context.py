"""What every stage is given: the store, the folder of raw files, the workers and the listeners to progress."""

from dataclasses import dataclass, field
from pathlib import Path

from leap.pipeline.cluster import Workforce
from leap.pipeline.datasets import default_data_dir
from leap.pipeline.events import Reporter
from leap.store import Store


def data_folder(given: Path | None = None) -> Path:
    """Return where raw files are looked for: what was given, else `LEAP_DATA`, else the user's cache folder."""
    return given or default_data_dir()


@dataclass(frozen=True)
class Context:
    """Surroundings of a stage; nothing in it changes a result.

    Attributes
    ----------
    data : folder where raw files are looked for before any download (see `data_folder`).
    """

    store: Store = field(default_factory=Store.open)
    data: Path = field(default_factory=data_folder)
    workforce: Workforce = field(default_factory=Workforce)
    reporter: Reporter = field(default_factory=Reporter)
