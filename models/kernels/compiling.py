"""How every kernel is compiled, and the form in which it gets its arrays."""

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import DTypeLike, NDArray


def forget_stale(folder: Path) -> None:
    """Remove the compiled kernels of a folder if any of its files has changed since they were compiled.

    A kernel calls kernels of other files, whose code becomes part of it, and numba compares its own file only: after an
    update it would go on computing as before. Where the folder cannot be written, numba does not keep kernels in it.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    kept = folder / "__pycache__"
    note = kept / "kernels.sha256"
    with contextlib.suppress(OSError):
        if note.is_file() and note.read_text() == digest.hexdigest():
            return
        for path in kept.glob("*.nbi"):
            path.unlink(missing_ok=True)
        kept.mkdir(exist_ok=True)
        note.write_text(digest.hexdigest())


forget_stale(Path(__file__).parent)


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorate a loop over arrays: compiled at its first call, kept in numba's cache on disk.

    Kernels release the GIL and never use numba's own threads: its thread pool aborts the process when two Python
    threads enter it at once, as Dask's do. `threads.share` runs them on several.

    Parameters
    ----------
    options : further ones of `numba.njit`, such as `fastmath`.
    """
    compile_lazily: Any = numba.njit(cache=True, nogil=True, **options)
    return compile_lazily if function is None else compile_lazily(function)


def read_only(array: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """Return a C-contiguous read-only view (or copy) of `array` with the given element type.

    Arrays that crossed a process border or were mapped from a file are often read-only, and numba compiles a
    kernel anew for them; inputs that always are cost one compilation only.
    """
    view = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view
