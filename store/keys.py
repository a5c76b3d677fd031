"""Cryptographic keys: equal requests give equal keys, and anything that matters gives another one."""

import hashlib
import json
from typing import Any

SCHEMA_VERSION = 1
KEY_LENGTH = 40


def canonical_json(value: Any) -> bytes:
    """Encode JSON values in the one way that keys are computed from: sorted, compact, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def dataset_key(fingerprint: dict[str, Any], params: dict[str, Any], algorithm: int) -> str:
    """Key of a dataset artifact.

    Parameters
    ----------
    fingerprint : what the dataset is made from: digests of all raw bytes or the generator's parameters, the reader
        and its options.
    params : validated options of the ingest stage.
    algorithm : version of the ingest stage; raised when its results change.
    """
    return digest(
        {
            "schema": SCHEMA_VERSION,
            "kind": "dataset",
            "source": fingerprint,
            "params": params,
            "algorithm": algorithm,
        }
    )[:KEY_LENGTH]


def derived_key(
    kind: str, source: str, params: dict[str, Any], algorithm: int, inputs: dict[str, str] | None = None
) -> str:
    """Key of an artifact derived from a dataset.

    Parameters
    ----------
    source : digest of the dataset's canonical content.
    algorithm : version of the code that makes this kind; raised when its results change.
    inputs : role -> key of the artifacts that are read besides the dataset, so that a change of theirs changes this
        key too. Without any, the key is the one that version 0.1 computed.
    """
    request = {"schema": SCHEMA_VERSION, "kind": kind, "source": source, "params": params, "algorithm": algorithm}
    return digest(request | ({"inputs": inputs} if inputs else {}))[:KEY_LENGTH]
