"""The command ``rscert``, which runs the program with the ONNX Runtime that is installed for this Python."""

import os
import sys

from rscert import _library
from rscert._program import program


def main() -> None:
    path = program()
    os.execve(path, [path, *sys.argv[1:]], _library.environment())


if __name__ == "__main__":
    main()
