"""The command ``rscert``, which runs the program with the ONNX Runtime that is installed for this Python."""

import os
import sys

from rscert import _library
from rscert._program import program


def main() -> None:
    path = program()
    environment = _library.environment()
    environment.setdefault("RSCERT_PYTHON", sys.executable)  # for rscert train
    os.execve(path, [path, *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
