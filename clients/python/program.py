#!python
"""Becomes the program of the same name in the package, without importing the package, which would take longer."""

import os
import signal
import sys
from importlib.util import find_spec

package = find_spec("tenon")
folder = os.path.join(package.submodule_search_locations[0], "_bin")
# the worker finds tenon-http and tenon-sql, and handlers find tenon, also where the environment's bin/ is not in PATH
os.environ["PATH"] = os.pathsep.join([folder, os.environ.get("PATH", os.defpath)])
for ignored in signal.SIGPIPE, signal.SIGXFSZ:  # by Python, and by what a program becomes
    signal.signal(ignored, signal.SIG_DFL)
os.execv(os.path.join(folder, os.path.basename(sys.argv[0])), sys.argv)
