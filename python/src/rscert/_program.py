"""Runs the program and turns its errors into exceptions."""

import json
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

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


class RequirementNotMet(RscertError):
    """A requirement is not met (exit code 3)."""


_ERRORS = {2: InputError, 3: RequirementNotMet}


def program() -> str:
    """Returns the path of the program."""
    return str(Path(__file__).parent / "bin" / "rscert")


def run(arguments: Sequence[str], *, progress: bool = False) -> str:
    """Runs the program and returns its output. With progress, shows the program's progress lines as they come."""
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
        raise _error(child.returncode, lines)
    for line in lines:
        if line.startswith("warning: "):
            warnings.warn(line.removeprefix("warning: "), RuntimeWarning, stacklevel=4)
    return printed


def _read(child: "subprocess.Popen[str]", progress: bool) -> tuple[str, list[str]]:
    """Returns the program's output and its lines on stderr. An interrupt goes on to the program, and is raised once the
    program has ended."""
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
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        child.wait()
        for reader in readers:
            reader.join()
        raise
    return "".join(printed), lines


def _copy(source: IO[str], printed: list[str]) -> None:
    """Appends the program's whole output to printed."""
    printed.append(source.read())


def _copy_lines(source: IO[str], lines: list[str], progress: bool) -> None:
    """Appends the program's lines to lines. With progress, it also shows the lines that are no warnings or errors."""
    for line in source:
        lines.append(line.rstrip("\n"))
        if progress and not line.startswith(("warning: ", "rscert: ", "hint: ")):
            print(line, end="", file=sys.stderr, flush=True)


def _error(code: int, lines: Sequence[str]) -> BaseException:
    def last(prefix: str) -> str | None:
        return next((line.removeprefix(prefix) for line in reversed(lines) if line.startswith(prefix)), None)

    if code == 130:
        return KeyboardInterrupt()
    message = last("rscert: ") or f"the program ended with {code}: " + "\n".join(lines[-3:])
    return _ERRORS.get(code, Failed)(message, last("hint: "))


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
        if isinstance(value, bool):
            out.append(f"{name}={str(value).lower()}")
        elif isinstance(value, (list, tuple)):
            out.append(f"{name}={','.join(map(str, value))}")
        else:
            out.append(f"{name}={value}")
    return out
