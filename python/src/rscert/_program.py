"""Runs the program and turns its errors into exceptions."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from rscert import _library


class RscertError(Exception):
    """An error of the program, with its error line (``message``) and its advice (``hint``, which may be None)."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}\nhint: {hint}")
        self.message = message
        self.hint = hint


class Failed(RscertError):
    """The work failed (exit code 1)."""


class InputError(RscertError, ValueError):
    """Wrong options or input (exit code 2)."""


@dataclass(frozen=True)
class Requirement:
    """The result of a requirement, such as ``certified-accuracy@0.5>=0.60``.

    ``value`` is None if nothing is certified. ``says`` is a line of text with the value and, for an unmet requirement,
    the distance between the value and the bound.
    """

    requirement: str
    met: bool
    value: float | None
    says: str


class RequirementNotMet(RscertError):
    """A requirement is not met (exit code 3).

    ``requirement`` and ``value`` are those of the first unmet requirement, and ``requirements`` holds the results of
    all requirements.
    """

    def __init__(self, message: str, hint: str | None = None, requirements: Sequence[Requirement] = ()) -> None:
        unmet = [r for r in requirements if not r.met]
        super().__init__("\n".join([message, *(f"not met: {r.requirement}: {r.says}" for r in unmet)]), hint)
        self.message = message
        self.requirements = list(requirements)
        self.requirement = unmet[0].requirement if unmet else None
        self.value = unmet[0].value if unmet else None


def program() -> str:
    """Returns the path of the program."""
    return str(Path(__file__).parent / "bin" / "rscert")


def run(arguments: Sequence[str], *, progress: bool = False) -> str:
    """Runs the program and returns its output. With ``progress``, shows the program's progress lines as they come."""
    # The program has its own process group, so it gets an interrupt only once, from this process. A second interrupt
    # would kill the program. Jupyter, too, interrupts only this process.
    with subprocess.Popen(
        [program(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_library.environment(),
        process_group=0,
        encoding="utf-8",
    ) as child:
        printed, lines = _read(child, progress)
    if child.returncode != 0:
        raise _error(child.returncode, lines, printed)
    for line in lines:
        if line.startswith("warning: "):
            warnings.warn(line.removeprefix("warning: "), RuntimeWarning, stacklevel=4)
    return printed


def _read(child: "subprocess.Popen[str]", progress: bool) -> tuple[str, list[str]]:
    """Returns the program's output and its lines on stderr. An interrupt is passed on to the program, and is raised
    here once the program has ended. A second interrupt kills the program."""
    assert child.stdout and child.stderr
    printed: list[str] = []
    lines: list[str] = []
    # Threads read both pipes, also while this thread waits for an interrupted program to end: a full pipe would block it.
    readers = [
        threading.Thread(target=_copy, args=(child.stdout, printed), daemon=True),
        threading.Thread(target=_copy_lines, args=(child.stderr, lines, progress), daemon=True),
    ]
    for reader in readers:
        reader.start()
    try:
        for reader in readers:
            reader.join()
        child.wait()
    except BaseException:  # also the exception of a caller's signal handler, such as a timeout's
        child.send_signal(signal.SIGINT)
        try:
            child.wait()
        except BaseException:
            child.kill()
            raise
        finally:
            for reader in readers:
                reader.join()
        raise
    return "".join(printed), lines


def _copy(source: IO[str], printed: list[str]) -> None:
    """Appends the program's whole output to the list 'printed'."""
    printed.append(source.read())


def _copy_lines(source: IO[str], lines: list[str], progress: bool) -> None:
    """Appends the program's lines to the list 'lines'.

    With ``progress``, it also shows the lines that are neither warnings nor errors.
    """
    for line in source:
        lines.append(line.rstrip("\n"))
        if progress and not line.startswith(("warning: ", "rscert: ", "hint: ")):
            print(line, end="", file=sys.stderr, flush=True)


def _error(code: int, lines: Sequence[str], printed: str) -> BaseException:
    def last(prefix: str) -> str | None:
        return next((line.removeprefix(prefix) for line in reversed(lines) if line.startswith(prefix)), None)

    if code == 130:
        return KeyboardInterrupt()
    message = last("rscert: ") or f"the program ended with {code}: " + "\n".join(lines[-3:])
    if code == 3:
        return RequirementNotMet(message, last("hint: "), requirements(printed))
    return (InputError if code == 2 else Failed)(message, last("hint: "))


def requirements(printed: str) -> list[Requirement]:
    """Returns the results of the requirements in the document that the program printed."""
    document = {}
    with contextlib.suppress(ValueError):  # without --json the output is text
        document = json.loads(printed)
    return [Requirement(r["requirement"], r["met"], r["value"], r["says"]) for r in document.get("requirements", ())]


def run_json(arguments: Sequence[str], *, progress: bool = False) -> dict[str, Any]:
    """Returns the document that the program prints with --json."""
    quiet = [] if progress else ["--quiet"]
    document: dict[str, Any] = json.loads(run([*arguments, "--json", *quiet], progress=progress))
    return document


def flags(options: dict[str, Any]) -> list[str]:
    """Returns the command-line flags for options such as n=100, quiet=True or radii=[0.25, 0.5]. None gives no flag."""
    out = []
    for key, value in options.items():
        name = "--" + key.rstrip("_").replace("_", "-")
        if value is None:
            continue
        values = _values(key, value)
        if key == "require":  # a requirement can contain commas
            out += [f"{name}={v}" for v in values]
        else:
            out.append(f"{name}={','.join(values)}")
    return out


def _values(key: str, value: Any) -> list[str]:
    """Returns the values of an option as text. Arrays, such as a mean of shape [3,1,1], give one value per element."""
    if isinstance(value, (str, os.PathLike)):
        return [os.fspath(value)]
    if isinstance(value, (list, tuple)) and any(isinstance(v, (str, os.PathLike)) for v in value):
        return [os.fspath(v) for v in value]
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or sum(n != 1 for n in array.shape) > 1:
        given = f"an array of shape {list(array.shape)}" if array.ndim else repr(value)
        raise InputError(f"{key}: want a number, a text, or a list of numbers or texts, not {given}")
    return [str(v).lower() if isinstance(v, bool) else str(v) for v in array.ravel().tolist()]
