from collections.abc import Callable, Iterator

import pytest
import torch

from leap.pipeline.bench import contest as module
from leap.pipeline.bench.contest import Rival, contest, contest_in_pieces, thread_choices


class Clock:
    """A clock that only work moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def working(self, name: str, durations: Callable[[], float]) -> Callable[[], None]:
        def work() -> None:
            self.log.append(name)
            self.now += durations()

        return work


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock.now)
    return clock


def test_rivals_take_turns_and_the_first_turn_does_not_count(clock: Clock) -> None:
    slow, quick = iter([100.0, 3.0, 1.0, 2.0]), iter([70.0, 0.5, 0.25, 4.0])
    found = contest(
        {
            "slow": Rival(clock.working("slow", lambda: next(slow))),
            "quick": Rival(clock.working("quick", lambda: next(quick))),
        },
        3,
    )
    assert found == {"slow": 2.0, "quick": 0.5}
    assert clock.log == ["slow", "quick"] * 4


def test_something_short_is_called_until_its_turn_is_over(clock: Clock) -> None:
    assert contest({"short": Rival(clock.working("short", lambda: 0.008))}, 1) == {"short": pytest.approx(0.008)}
    assert len(clock.log) == 2 * 3


def test_a_rival_gets_the_threads_that_serve_it_best_and_a_hopeless_choice_is_dropped(clock: Clock) -> None:
    before = torch.get_num_threads()
    seconds, met = {1: 1.0, 2: 9.0}, []

    def work() -> None:
        met.append(torch.get_num_threads())
        clock.now += seconds[torch.get_num_threads()]

    assert contest({"any": Rival(work, (1, 2))}, 3) == {"any": 1.0}
    assert met == [1, 2, 1, 2, 1, 1]
    assert torch.get_num_threads() == before


def test_close_choices_of_threads_are_all_tried_to_the_end(clock: Clock) -> None:
    times = {1: iter([1.0, 1.0, 5.0, 5.0]), 2: iter([1.0, 1.4, 1.4, 1.4])}

    def work() -> None:
        clock.now += next(times[torch.get_num_threads()])

    assert contest({"any": Rival(work, (1, 2))}, 3) == {"any": pytest.approx(1.4)}


def test_pieces_alternate_and_their_sum_is_what_counts(clock: Clock) -> None:
    rounds = {
        "short": iter([[50.0], [1.0], [2.0], [3.0]]),
        "long": iter([[50.0] * 2, [1.0, 4.0], [2.0, 2.0], [9.0] * 2]),
    }

    def begin(name: str) -> Callable[[], Iterator[None]]:
        def pieces() -> Iterator[None]:
            for seconds in next(rounds[name]):
                clock.log.append(name)
                clock.now += seconds
                yield

        return pieces

    assert contest_in_pieces({name: begin(name) for name in rounds}, 3) == {"short": 2.0, "long": 5.0}
    assert clock.log == ["short", "long", "long"] * 4


def test_one_thread_is_always_a_choice() -> None:
    assert thread_choices()[0] == 1
    assert torch.get_num_threads() in thread_choices()
