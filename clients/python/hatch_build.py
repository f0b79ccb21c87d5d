"""A wheel with tenon's programs: if script/wheel has put them there, it is for this platform, with their commands."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Programs(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version
        commands = sorted(Path(self.root, "commands").glob("*"))  # script/wheel copies program.py there
        if commands:
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"
            build_data["shared_scripts"].update({str(command): command.name for command in commands})
