"""Named errors of every layer; each is also the builtin that a caller would catch.

`LeapError` is what the command line turns into one paragraph and an exit code: `exit_code` is 2 for wrong usage
or bad input and 1 for work that failed. Messages say what is wrong, the value met and the way out.
"""


class LeapError(Exception):
    """Anything that LEAP reports as an error of its own."""

    exit_code = 2


class InvalidInputError(LeapError, ValueError):
    """Input data or a parameter that cannot be used."""


class UnknownDatasetError(LeapError, LookupError):
    """A dataset name that nothing answers to."""


class MissingRawFilesError(LeapError, FileNotFoundError):
    """Raw files that are neither on disk nor to be downloaded."""


class DownloadError(LeapError, OSError):
    """A download that failed or brought something other than expected."""


class NeighborhoodsTooLargeError(LeapError, ValueError):
    """An extraction estimated to exceed the budget."""


class NotAStoreError(LeapError, ValueError):
    """A directory that holds something other than a store."""


class NewerSchemaError(LeapError, ValueError):
    """A store or artifact written by a newer version of LEAP."""


class StoreNotWritableError(LeapError, PermissionError):
    """A store that cannot be written to."""


class NoSpaceError(LeapError, OSError):
    """A full disk."""


class ArtifactNotFoundError(LeapError, LookupError):
    """A key, tag or request without an artifact."""


class ArtifactInUseError(LeapError, ValueError):
    """An artifact that others depend on and that therefore is not removed."""


class DamagedArtifactError(LeapError, OSError):
    """An artifact whose bytes are not those that were published."""

    exit_code = 1

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key

    def __reduce__(self) -> tuple[type, tuple[str, str]]:  # exceptions cross process borders inside Dask
        return (type(self), (str(self), self.key))


class DamagedReferenceError(LeapError, OSError):
    """A tag or the record of a run that cannot be read."""

    exit_code = 1


class WorkFailedError(LeapError, RuntimeError):
    """A stage that could not be finished."""

    exit_code = 1


class LeaseLostError(LeapError, RuntimeError):
    """Work on an artifact whose making has gone to another process."""

    exit_code = 1


class DamagedArtifactWarning(UserWarning):
    """A damaged artifact was found and will be made again."""


class DamagedCheckpointWarning(UserWarning):
    """A checkpoint that cannot be read was found and is passed over."""


class SmallerStackWarning(UserWarning):
    """Folds could not be trained together, and go on in a smaller stack."""
