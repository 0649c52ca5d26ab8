"""Tags the wheel for one platform and every Python 3, because it holds a program."""

import os
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformWheel(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        program = Path(self.root, "src/rscert/bin/rscert")
        if not program.is_file():
            raise FileNotFoundError(f"{program}: not there; 'make wheel' builds it")
        platform = os.environ.get("RSCERT_WHEEL_PLATFORM") or sysconfig.get_platform()
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + platform.replace("-", "_").replace(".", "_")
