"""Turns what tools take and give into JSON, the same bytes for the same value: estop compares calls to find loops."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from typing import Any, List, Mapping, Optional

# estop takes bodies of 1 MiB. A command or a question is far shorter; of a whole file its ends and its hash are enough.
_TEXT_MAX = 64 * 1024
_DEPTH_MAX = 32
# The end of `repr` that differs in each process.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def to_bytes(body: Mapping[str, Any]) -> bytes:
    """The body of a request. What is None is left out."""
    kept = {key: value for key, value in body.items() if value is not None}
    # Lone surrogates (names of files that are no UTF-8) have no bytes.
    return json.dumps(plain(kept), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def plain(value: Any, depth: int = 0) -> Any:
    """The value in JSON's own types."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return shortened(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return shortened(bytes(value).decode("utf-8", "replace"))
    if depth >= _DEPTH_MAX:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item, depth + 1) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return _plain_object(value, depth)


def _plain_object(value: Any, depth: int) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields: List[str] = [field.name for field in dataclasses.fields(value)]
        return {name: plain(getattr(value, name, None), depth + 1) for name in fields}
    dump = getattr(value, "model_dump", None)
    try:
        if callable(dump):  # pydantic
            return plain(dump(), depth + 1)
        return shortened(_ADDRESS.sub("", str(value)))
    except Exception:  # An object that cannot be shown must not keep a tool from being judged.
        return f"<{type(value).__name__}>"


def shortened(text: str) -> str:
    """The text, or its two ends with the hash of the whole."""
    if len(text) <= _TEXT_MAX:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    half = _TEXT_MAX // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out, sha256 {digest} …\n{text[-half:]}"


def exit_code_of(result: Any) -> Optional[int]:
    """What a finished process ended with; None for everything else."""
    code = getattr(result, "returncode", None)
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def text_of(result: Any) -> Any:
    """What a finished process said; everything else as it is."""
    if exit_code_of(result) is None:
        return result
    streams = (getattr(result, "stdout", None), getattr(result, "stderr", None))
    return "".join(plain(stream) for stream in streams if isinstance(stream, (str, bytes)))
