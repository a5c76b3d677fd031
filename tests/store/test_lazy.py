"""Libraries that are imported when first used, by one thread or several."""

import sys
import threading

import pytest

from leap.store.lazy import lazy_module


@pytest.fixture
def slow_module(tmp_path, monkeypatch):
    """Return the name of a module whose import does not end before a second thread has asked for it."""
    (tmp_path / "slow_to_import.py").write_text(
        "import slow_hooks\nslow_hooks.begun.set()\nslow_hooks.asked.wait()\nvalue = 42\n"
    )
    hooks = type(sys)("slow_hooks")
    hooks.begun, hooks.asked = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "slow_hooks", hooks)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "slow_to_import", hooks
    sys.modules.pop("slow_to_import", None)


def test_nothing_is_imported_before_it_is_used(slow_module):
    name, hooks = slow_module
    module = lazy_module(name)
    assert name in repr(module)
    assert name not in sys.modules
    hooks.asked.set()
    assert module.value == 42
    assert name in sys.modules


def test_threads_that_use_it_at_once_wait_for_the_import(slow_module):
    name, hooks = slow_module
    module, found = lazy_module(name), []
    threads = [threading.Thread(target=lambda: found.append(module.value)) for _ in range(4)]
    threads[0].start()
    hooks.begun.wait()  # half imported: there is no value yet
    for thread in threads[1:]:
        thread.start()
    hooks.asked.set()
    for thread in threads:
        thread.join()
    assert found == [42] * 4


def test_a_library_that_is_not_there_says_so_when_used():
    module = lazy_module("no_such_library")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        _ = module.anything
