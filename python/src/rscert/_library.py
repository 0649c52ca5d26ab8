"""Finds ONNX Runtime's library among the installed packages."""

import base64
import hashlib
import os
import sys
from importlib import metadata
from pathlib import Path

# The oldest ONNX Runtime with the API that the program calls.
OLDEST = (1, 24)

# The program takes the library from this variable if neither --onnxruntime nor $RSCERT_ONNXRUNTIME names one.
VARIABLE = "RSCERT_ONNXRUNTIME_PYTHON"


class Unusable(Exception):
    """The error for an installed package whose library cannot be used."""


def environment() -> dict[str, str]:
    """Returns the environment for the program: the environment of this process, plus the path of ONNX Runtime."""
    env = dict(os.environ)
    if env.get("RSCERT_ONNXRUNTIME"):
        return env
    # If both packages are installed, use the package for GPUs.
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
    """Returns the path of an installed package's library, or None if the package is not installed.

    The file must have the size and the SHA-256 in the package's list of files. The reason is that onnxruntime and
    onnxruntime-gpu share a folder, so the package installed later may have replaced the file. Hashing takes about 0.1 s
    at every start. The function ignores packages in the current folder, which ``python -m`` searches first.
    """
    package = next(iter(metadata.distributions(name=name, path=_installed())), None)
    if package is None:
        return None
    if release(package.version) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise Unusable(f"{name} {package.version} is too old for rscert: pip install '{name}>={oldest}'")
    for file in package.files or []:
        if not is_library(file.name):
            continue
        path = Path(str(file.locate())).resolve()
        if _same(path, file):
            return path
        raise Unusable(
            f"{path} is not the file that {name} installed, so another package has replaced it or it is damaged: "
            f"pip install --force-reinstall --no-deps {name}"
        )
    raise Unusable(f"{name} {package.version} has no ONNX Runtime library: use rscert setup")


def _installed() -> list[str]:
    """Returns the folders of sys.path except the current folder."""
    return [folder for folder in sys.path if folder not in ("", ".", os.getcwd())]


def _same(path: Path, listed: metadata.PackagePath) -> bool:
    """Reports whether a file has the size and the hash in a package's list. A value missing from the list matches."""
    if not path.is_file() or (listed.size is not None and path.stat().st_size != listed.size):
        return False
    if listed.hash is None:
        return True
    if listed.hash.mode != "sha256":
        return False
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=") == listed.hash.value


def release(version: str) -> tuple[int, ...]:
    """Returns the major and the minor number of a version, or (0,) if the version does not start with numbers."""
    parts = version.split(".")[:2]
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else (0,)


def is_library(name: str) -> bool:
    """Reports whether a file is ONNX Runtime itself, such as libonnxruntime.so.1.29.0, not a provider's library."""
    return name.startswith(("libonnxruntime.so", "libonnxruntime.1.")) or name == "libonnxruntime.dylib"
