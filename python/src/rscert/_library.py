"""Finds ONNX Runtime's library among the installed packages."""

import os
import sys
from importlib import metadata
from pathlib import Path

# The oldest ONNX Runtime with the API that the program calls.
OLDEST = (1, 24)

# The program takes the library from this variable if neither --onnxruntime nor $RSCERT_ONNXRUNTIME names one.
VARIABLE = "RSCERT_ONNXRUNTIME_PYTHON"


class Unusable(Exception):
    """An installed package whose library cannot be used."""


def environment() -> dict[str, str]:
    """The environment for the program: this process's, with the path of ONNX Runtime."""
    env = dict(os.environ)
    if env.get("RSCERT_ONNXRUNTIME"):
        return env
    # The package for GPUs wins.
    for name in ("onnxruntime-gpu", "onnxruntime"):
        try:
            library = find(name)
        except Unusable as problem:
            print(f"warning: {problem}", file=sys.stderr)
            continue
        if library is not None:
            env[VARIABLE] = str(library)
            break
    return env


def find(name: str) -> Path | None:
    """The library of an installed package, or None if the package is not installed.

    The file must have the size in the package's list of files: onnxruntime and onnxruntime-gpu share a folder, and the
    package installed later may have replaced the file.
    """
    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    if release(package.version) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise Unusable(f"{name} {package.version} is too old for rscert: pip install '{name}>={oldest}'")
    for file in package.files or []:
        if not is_library(file.name):
            continue
        path = Path(str(file.locate())).resolve()
        if path.is_file() and (file.size is None or path.stat().st_size == file.size):
            return path
        raise Unusable(f"another package has replaced {path}: pip install --force-reinstall --no-deps {name}")
    raise Unusable(f"{name} {package.version} has no ONNX Runtime library: use rscert setup")


def release(version: str) -> tuple[int, ...]:
    """Major and minor number; (0,) for a version without them."""
    parts = version.split(".")[:2]
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else (0,)


def is_library(name: str) -> bool:
    """True for libonnxruntime.so.1.29.0 and libonnxruntime.1.29.0.dylib, not for a provider's library."""
    return name.startswith(("libonnxruntime.so", "libonnxruntime.1.")) or name == "libonnxruntime.dylib"
