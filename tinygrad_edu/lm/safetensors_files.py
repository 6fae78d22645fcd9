"""The safetensors files of this project: every weight that is read or written goes through here.

The library is trusted with the format. What it leaves to its caller is done here: arrays are laid
out in C order first (it writes the bytes of a transposed view in their order in memory, which are
other numbers), bfloat16 is read as `ml_dtypes` has it, a model in shards is put together, and a
file that cannot be read is refused with one sentence that says what it is. Pickles are never read:
they can run any code.

Files of ours can hold a digest of each array, so that one that was changed, or turned about where
no shape shows it, is found and named.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu.files import write_atomically
from tinygrad_edu.lm.errors import RunError

__all__ = [
    "Arrays", "metadata_of", "read_json", "read_safetensors", "read_weights", "some",
    "write_safetensors",
]  # fmt: skip

Arrays = dict[str, NDArray[Any]]
MODEL, INDEX = "model.safetensors", "model.safetensors.index.json"
DIGESTS = "tinygrad_edu.sha256"
"""The entry of a file's metadata that holds the digests: JSON, the name of an array to the first
16 hexadecimal digits of the SHA-256 of its bytes."""
_KINDS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32",
    "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "*.bin", "*.pt", "*.pth", "*.ckpt")


def some(names: Sequence[str], most: int = 4) -> str:
    """Names for an error: the first few, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def write_safetensors(
    path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None,
    digests: bool = False,
) -> None:  # fmt: skip
    """Write named arrays; the file is whole or absent.

    Args:
        path: the file.
        arrays: of any layout in memory; bfloat16 is `ml_dtypes.bfloat16`.
        metadata: texts by name.
        digests: whether to add one of each array, which `read_safetensors` then checks.
    """
    from safetensors.numpy import save

    whole = {name: _in_order(array) for name, array in arrays.items()}
    about = dict(metadata or {})
    if digests:
        about[DIGESTS] = json.dumps({name: _digest(array) for name, array in whole.items()})
    write_atomically(path, save(whole, metadata=about))


def read_safetensors(path: Path) -> Arrays:
    """The arrays of a file, in the types they are stored in.

    Raises:
        RunError: the file is missing, damaged, cut short or no safetensors file; it holds a type
            that is not read here; an array is not the one that was written.
    """
    from safetensors import SafetensorError, deserialize

    data = _bytes_of(path)
    try:
        parts = deserialize(data)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise RunError(_what_is_wrong(path, data, str(error))) from error
    found: Arrays = {}
    for name, part in parts:
        if part["dtype"] not in _KINDS:
            raise RunError(
                f"{name} in {path} is of type {part['dtype']}; those read here are "
                f"{', '.join(_KINDS)}"
            )
        flat = np.frombuffer(part["data"], _dtype(_KINDS[part["dtype"]]))
        found[name] = flat.reshape(part["shape"])
    _check_digests(path, found, _header(data).get("__metadata__", {}))
    return found


def metadata_of(path: Path) -> dict[str, str]:
    """The texts in the header of a file that `read_safetensors` can read."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        found: dict[str, str] = json.loads(file.read(size)).get("__metadata__", {})
    return found


def read_weights(folder: Path) -> Arrays:
    """All arrays of a model's folder: of `model.safetensors`, or else of the shards that its
    `model.safetensors.index.json` names.

    Raises:
        RunError: neither is there, or only a pickle; a shard is missing or damaged; the shards do
            not hold what their index says.
    """
    if (folder / MODEL).exists():
        return read_safetensors(folder / MODEL)
    if (folder / INDEX).exists():
        return _read_shards(folder)
    pickles = sorted({path.name for kind in _PICKLES for path in folder.glob(kind)})
    if pickles:
        raise RunError(
            f"{folder} holds its weights as a pickle only ({some(pickles)}), which can run any "
            "code when it is opened and is not read here: save the model again as safetensors, "
            "with transformers' save_pretrained(folder)"
        )
    raise RunError(
        f"{folder} holds no weights: it has neither {MODEL} nor {INDEX}; give the folder that "
        "save_pretrained or `tinygrad-edu export` wrote"
    )


def _read_shards(folder: Path) -> Arrays:
    index = read_json(folder / INDEX)
    where = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(where, dict) or not all(isinstance(f, str) for f in where.values()):
        raise RunError(f"{folder / INDEX} has no weight_map, which says in which file a weight is")
    files = sorted(set(where.values()))
    outside = [file for file in files if Path(file).name != file]
    if outside:
        raise RunError(f"{folder / INDEX} names files outside its folder: {some(outside)}")
    missing = [file for file in files if not (folder / file).exists()]
    if missing:
        raise RunError(
            f"{folder} lacks {some(missing)} of its {len(files)} shards; copy the whole folder"
        )
    found: Arrays = {}
    for file in files:
        shard = read_safetensors(folder / file)
        absent = sorted(name for name, at in where.items() if at == file and name not in shard)
        if absent:
            raise RunError(f"{folder / file} lacks {some(absent)}, which {INDEX} says is in it")
        twice = sorted(shard.keys() & found.keys())
        if twice:
            raise RunError(f"{some(twice)} of {folder} stands in more than one shard")
        found |= shard
    return found


def read_json(path: Path) -> Any:
    """What a JSON file holds.

    Raises:
        RunError: it cannot be read, or is not JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is not JSON that can be read: {error}") from error


def _in_order(array: NDArray[Any]) -> NDArray[Any]:
    """The array row by row, little end first, as the format has it."""
    # not np.ascontiguousarray, which makes one dimension of none
    made = np.asarray(array, order="C")
    return made.astype(made.dtype.newbyteorder("<")) if made.dtype.byteorder == ">" else made


def _dtype(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    else:
        found = np.dtype(name).newbyteorder("<")
    return found


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror})") from error


def _header(data: bytes) -> dict[str, Any]:
    """The names in a file, or nothing where its header cannot be read."""
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except (ValueError, RecursionError):
        return {}
    return header if isinstance(header, dict) else {}


def _what_is_wrong(path: Path, data: bytes, reason: str) -> str:
    """A sentence on a file that the library has refused."""
    if data[:2] in (b"PK", b"\x80\x02", b"\x80\x04"):
        return (
            f"{path} is a pickle of PyTorch, which can run any code when it is opened, and is not "
            "read here: save the model again as safetensors"
        )
    if data.startswith(b"version https://git-lfs"):
        return f"{path} is a pointer of Git LFS and not the file itself; fetch it (git lfs pull)"
    if not data:
        return f"{path} is not a whole safetensors file: it is empty; copy it again"
    header = {name: entry for name, entry in _header(data).items() if name != "__metadata__"}
    try:
        ends = max((int(entry["data_offsets"][1]) for entry in header.values()), default=0)
    except (TypeError, KeyError, IndexError, ValueError):
        ends = 0
    whole = 8 + int.from_bytes(data[:8], "little") + ends if ends else 0
    if whole > len(data):
        return (
            f"{path} is not a whole safetensors file: it has {len(data):,} of {whole:,} bytes; "
            "copy it again"
        )
    return f"{path} is not a whole safetensors file: {reason.removeprefix('Error while ')}"


def _digest(array: NDArray[Any]) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()[:16]


def _check_digests(path: Path, arrays: Arrays, metadata: Mapping[str, str]) -> None:
    try:
        wanted = json.loads(metadata.get(DIGESTS, "{}"))
        changed = [n for n, a in arrays.items() if n in wanted and wanted[n] != _digest(a)]
    except (ValueError, TypeError) as error:
        raise RunError(f"{path} holds digests that are none ({error}); write it again") from error
    turned = [n for n in changed if arrays[n].ndim == 2 and wanted[n] == _digest(arrays[n].T)]
    if turned:
        raise RunError(
            f"{some(turned)} in {path} is stored the other way round, columns for rows: the file "
            "was changed after it was written; transpose it back, or export the model again"
        )
    if changed:
        raise RunError(
            f"{some(changed)} in {path} is not what was written there; copy the file again, or "
            f"drop {DIGESTS} from its metadata if the change was meant"
        )
