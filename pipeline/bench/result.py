"""What a benchmark found: speeds compared with a peer's, and memory compared with a limit."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Comparison:
    """Our time for some work and a peer's for the same work, measured in the same run.

    Attributes
    ----------
    part : part of the benchmark that measured it.
    what : the work, in words.
    ours, peer : seconds.
    target : ratio that is asked for.
    is_stopped : whether the peer was stopped before it had finished, so that its time is a lower bound.
    """

    part: str
    what: str
    ours: float
    peer: float
    target: float
    is_stopped: bool = False

    @property
    def ratio(self) -> float:
        """How many times faster we are; a lower bound if the peer was stopped."""
        return self.peer / self.ours

    @property
    def ok(self) -> bool:
        """Whether the ratio reaches the target."""
        return self.ratio >= self.target

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "part": self.part,
            "what": self.what,
            "ours_seconds": self.ours,
            "peer_seconds": self.peer,
            "ratio": self.ratio,
            "is_lower_bound": self.is_stopped,
            "target": self.target,
            "ok": self.ok,
        }


@dataclass(frozen=True)
class MemoryUse:
    """Peak resident memory of one process of a command.

    Attributes
    ----------
    part : part of the benchmark that measured it.
    what : the command, in words.
    seconds : wall time of the whole command.
    process : "main", "worker 1", "worker 2", … or "other".
    peak, limit : bytes.
    """

    part: str
    what: str
    seconds: float
    process: str
    peak: int
    limit: int

    @property
    def ok(self) -> bool:
        """Whether the process stayed below the limit."""
        return self.peak < self.limit

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "part": self.part,
            "what": self.what,
            "seconds": self.seconds,
            "process": self.process,
            "peak_bytes": self.peak,
            "limit_bytes": self.limit,
            "ok": self.ok,
        }


@dataclass(frozen=True)
class BenchResult:
    """Everything that one run measured, and on what machine."""

    machine: dict[str, Any]
    comparisons: list[Comparison]
    memory: list[MemoryUse]

    def as_json(self) -> dict[str, Any]:
        """Return JSON values, the object that `--json` prints."""
        return {
            "machine": self.machine,
            "comparisons": [entry.as_json() for entry in self.comparisons],
            "memory": [entry.as_json() for entry in self.memory],
            "ok": all(entry.ok for entry in self.comparisons) and all(entry.ok for entry in self.memory),
        }
