#!/usr/bin/env python3
"""Runs every block of a page of docs in order, like a reader who copies them, and times each.

    python3 run_page.py PAGE >rows.md

Indented blocks are lines of one bash session. Blocks marked python are parts of one Python session in the shell's
environment. The rows of a Markdown table (what, elapsed time, processor time) go to the standard output, and everything
else goes to the standard error. At the first block that fails, the script ends with exit code 1.
"""

import json
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

BLOCK = re.compile(r"^```python\n(?P<python>(?:.*\n)*?)^```$|(?P<shell>(?:^ {4}.*\n)+)|^## (?P<title>.*)$", re.M)

# This program reads other programs as JSON strings, one per line, and runs them in one namespace. After each it prints
# the processor time so far.
SESSION = r"""
import json, sys, time
known = {"__name__": "__main__"}
for line in sys.stdin:
    exec(compile(json.loads(line), "block", "exec"), known)
    print("ran", time.process_time(), file=sys.__stderr__, flush=True)
"""


def spent():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Reader:
    """A shell and a Python session. Running a block returns its processor time in seconds."""

    def __init__(self):
        self.env, self.session, self.used = dict(os.environ), None, 0.0

    def shell(self, command):
        # python3 prints the environment at the end, so that later blocks see the exports of this block.
        ask = f"\n{sys.executable} -c 'import json, os; print(\"\\n\" + json.dumps(dict(os.environ)))'\n"
        before = spent()
        done = subprocess.run(["bash", "-e"], input=command + ask, env=self.env, stdout=subprocess.PIPE, text=True)
        said, _, env = done.stdout.rstrip("\n").rpartition("\n")
        if done.returncode:
            sys.exit(f"{done.stdout}\nrun_page.py: exit code {done.returncode}: {command}")
        self.env = json.loads(env)
        print(said, file=sys.stderr)
        return spent() - before

    def python(self, code):
        if self.session is None:
            self.session = subprocess.Popen(["bash", "-c", 'exec python -c "$0"', SESSION], env=self.env, text=True,
                                            stdin=subprocess.PIPE, stdout=sys.stderr, stderr=subprocess.PIPE)
        self.session.stdin.write(json.dumps(code) + "\n")
        self.session.stdin.flush()
        for line in self.session.stderr:
            if line.startswith("ran "):
                used, self.used = float(line.split()[1]) - self.used, float(line.split()[1])
                return used
            print(line, end="", file=sys.stderr)
        sys.exit(f"run_page.py: Python failed:\n{code}")


def main():
    (path,) = sys.argv[1:]
    reader, title, ran = Reader(), "", 0
    for m in BLOCK.finditer(Path(path).read_text(encoding="utf-8")):
        if m["title"]:
            title = m["title"]
            continue
        steps = [m["python"]] if m["python"] else re.sub("^ {4}", "", m["shell"], flags=re.M).splitlines()
        for code in steps:
            start = time.monotonic()
            used = reader.python(code) if m["python"] else reader.shell(code)
            what = f"the Python of “{title}”" if m["python"] else f"`{code}`"
            print(f"| {what} | {time.monotonic() - start:.0f} s | {used:.0f} s |", flush=True)
        ran += 1
    if ran < 3:
        sys.exit(f"run_page.py: only {ran} blocks in {path}")


if __name__ == "__main__":
    main()
