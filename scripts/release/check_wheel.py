"""Checks that a wheel has the licences of all modules in its program: python3 scripts/release/check_wheel.py WHEEL…."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path


def main(wheel: str) -> None:
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as scratch:
        names = [name for name in archive.namelist() if name.endswith(".dist-info/licenses/THIRD_PARTY_LICENSES")]
        licences = "".join(archive.read(name).decode() for name in names)
        program = archive.extract("rscert/bin/rscert", Path(scratch))
        command = ["go", "version", "-m", program]
        described = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = [line.split() for line in described.splitlines()]
    modules = [f"{line[1]} {line[2]}" for line in lines if line[0] == "dep"]
    unlicensed = [module for module in modules if f"\n{module}: " not in licences]
    if not modules or unlicensed:
        sys.exit(f"check_wheel.py: {wheel} lacks the licences of {unlicensed or 'all modules'}")
    if ["build", "-buildmode=pie"] not in lines:
        sys.exit(f"check_wheel.py: the program of {wheel} is not position-independent")


for path in sys.argv[1:]:
    main(path)
