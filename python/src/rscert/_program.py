"""Runs the program and turns its errors into exceptions."""

import json
import signal
import subprocess
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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
    # would kill the program.
    with subprocess.Popen(
        [program(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_library.environment(),
        process_group=0,
        encoding="utf-8",
    ) as child:
        try:
            printed, lines = _read(child, progress)
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            child.wait()
            raise
    if child.returncode != 0:
        raise _error(child.returncode, lines)
    for line in lines:
        if line.startswith("warning: "):
            warnings.warn(line.removeprefix("warning: "), RuntimeWarning, stacklevel=4)
    return printed


def _read(child: "subprocess.Popen[str]", progress: bool) -> tuple[str, list[str]]:
    """Returns the program's output and its lines on stderr."""
    if not progress:
        printed, messages = child.communicate()
        return printed, messages.splitlines()
    assert child.stdout and child.stderr
    lines = []
    with ThreadPoolExecutor(1) as other:
        result = other.submit(child.stdout.read)
        for line in child.stderr:
            lines.append(line.rstrip("\n"))
            if not line.startswith(("warning: ", "rscert: ", "hint: ")):
                print(line, end="", file=sys.stderr, flush=True)
        return result.result(), lines


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
