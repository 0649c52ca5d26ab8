#!/usr/bin/env python3
"""Installs rscert as new users of a minimal Debian do, and makes the tables of docs/newcomers.md.

    python3 newcomers.py WORK [pip] [data] [go] [git]  >tables.md

It needs root, debootstrap, git, Go, and the wheel in out/wheel (make wheel). The root folders of the Debian systems are
in WORK and are kept. Stand-ins replace everything that is not published yet. The wheel's folder stands in for the
package index, a folder made from HEAD for the module proxy, and a clone of HEAD for the repository. The commands are
those of the docs. Steps at which a newcomer stumbles must fail with the expected message.
"""

import datetime
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SUITE = "trixie"
MODULE = "github.com/rscert/rscert"
CHROOT = shutil.which("chroot") or "/usr/sbin/chroot"


def main():
    if os.geteuid() or not shutil.which("debootstrap"):
        sys.exit("newcomers.py: needs root and debootstrap (apt-get install debootstrap), on Debian or Ubuntu")
    work, names = Path(sys.argv[1]).resolve(), sys.argv[2:] or list(WAYS)
    work.mkdir(parents=True, exist_ok=True)
    given(work)
    for name in names:
        with Root(work, name) as root:
            WAYS[name](root)
            root.table()


def call(*command, **options):
    subprocess.run([str(c) for c in command], check=True, stdout=sys.stderr, **options)


def given(work):
    """Makes a minimal Debian, and the stand-ins for everything that is not published yet."""
    if not (work / "base/ok").exists():
        shutil.rmtree(work / "base", ignore_errors=True)
        call("debootstrap", "--variant=minbase", SUITE, work / "base")
        (work / "base/ok").touch()
    for folder in ("clone", "proxy"):
        shutil.rmtree(work / folder, ignore_errors=True)
    call("git", "clone", "--quiet", REPOSITORY, work / "clone")
    call("go", "run", ".", work / "clone", "HEAD", work / "proxy", cwd=REPOSITORY / "scripts/newcomers/moduleproxy")
    if not list((REPOSITORY / "out/wheel").glob("*.whl")):
        sys.exit("newcomers.py: no wheel in out/wheel; run make wheel")


class Root:
    """A fresh Debian with a user. It measures the time of each step."""

    def __init__(self, work, name):
        self.folder, self.name, self.work = work / name, name, work
        self.rows, self.stumbles, self.env = [], [], {}
        self.log = open(work / f"{name}.log", "w")

    def __enter__(self):
        self.leave()
        shutil.rmtree(self.folder, ignore_errors=True)
        call("cp", "-a", self.work / "base", self.folder)
        shutil.copy("/etc/resolv.conf", self.folder / "etc/resolv.conf")
        # These are further certificates that this machine trusts, such as the certificate of an office proxy.
        for authority in Path("/usr/local/share/ca-certificates").glob("*.crt"):
            (self.folder / "usr/local/share/ca-certificates").mkdir(parents=True, exist_ok=True)
            shutil.copy(authority, self.folder / "usr/local/share/ca-certificates")
        call("mount", "-t", "proc", "proc", self.folder / "proc")
        call("mount", "--bind", "/dev", self.folder / "dev")
        self.run("apt-get update -qq && apt-get install -y -qq ca-certificates && useradd --create-home me", "root")
        return self

    def __exit__(self, *_):
        self.leave()

    def leave(self):
        for mounted in ("proc", "dev"):
            if os.path.ismount(self.folder / mounted):
                call("umount", "--lazy", self.folder / mounted)

    def run(self, command, user):
        """Runs a command as root or as the user and returns its exit code and output."""
        place = ["--userspec=1000:1000"] if user == "me" else []
        home = "/home/me" if user == "me" else "/root"
        path = "/usr/local/bin:/usr/bin:/bin" + (":/usr/local/sbin:/usr/sbin:/sbin" if user == "root" else "")
        env = {"HOME": home, "PATH": path, "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        if user == "me":
            env |= self.env
        print(f"{user}$ {command}", file=self.log, flush=True)
        done = subprocess.run([CHROOT, *place, self.folder, "bash", "-c", f"cd ~; {command}"], env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        print(done.stdout, file=self.log, flush=True)
        return done.returncode, done.stdout

    def step(self, command, shown="", user="me"):
        """Runs a step of the installation and adds its time to the table."""
        before, start = usage(), time.monotonic()
        code, said = self.run(command, user)
        if code:
            sys.exit(f"newcomers.py: {self.name}: exit code {code}: {command}\n{said[-3000:]}")
        what = shown if shown.startswith("the Python") else f"`{shown or command}`"
        self.rows.append(f"| {what} | {time.monotonic() - start:.0f} s | {usage() - before:.0f} s |")
        return said

    def apt(self, packages):
        self.step(f"apt-get install -y -qq {packages}", f"apt-get install {packages}", "root")

    def stumble(self, without, command, says, then, user="me"):
        """Runs a step that must fail with a message that gives the reason."""
        code, said = self.run(command, user)
        if not code or not re.search(says, said):
            sys.exit(f"newcomers.py: {self.name}: {command}: exit code {code}, want a failure that says {says!r}:\n{said[-3000:]}")
        line = next(line for line in said.splitlines() if re.search(says, line)).strip()
        self.stumbles.append(f"| {without} | `{command}` | `{line}` | {then} |")

    def table(self):
        today = datetime.date.today()
        made = MADE[self.name]
        print(f"<!-- {made} -->\n\n| step | time | processor time |\n| --- | --- | --- |")
        print(*self.rows, sep="\n")
        if self.stumbles:
            print("\n| missing | command | message | remedy |\n| --- | --- | --- | --- |")
            print(*self.stumbles, sep="\n")
        print(f"\nWe measured on {today.day} {today:%B %Y} in a chroot with Debian {SUITE} ({platform.machine()}, {os.cpu_count()} cores). "
              f"The load average at the end was {os.getloadavg()[2]:.0f}.\n\n<!-- {made.replace('made', 'end')} -->", flush=True)


def usage():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def by_pip(root):
    shutil.copytree(REPOSITORY / "out/wheel", root.folder / "srv/wheel")
    shutil.copy(REPOSITORY / "docs/first-model.md", root.folder / "srv")
    shutil.copy(REPOSITORY / "scripts/newcomers/run_page.py", root.folder / "srv")
    # Without a cache, pip does not keep a second copy of 3 GB in a folder that is deleted anyway.
    root.env = {"PIP_FIND_LINKS": "/srv/wheel", "PIP_PRE": "1", "PIP_NO_CACHE_DIR": "1"}
    root.apt("--no-install-recommends python3 python3-pip")
    root.stumble("a virtual environment", "pip install rscert", "error: externally-managed-environment",
                 "apt manages the system's Python, so make a virtual environment: `python3 -m venv venv`")
    root.stumble("python3-venv", "python3 -m venv venv", "ensurepip is not", "`apt-get install python3-venv`")
    root.env.pop("PIP_PRE")
    root.apt("--no-install-recommends python3-venv")
    said = root.step("rm -rf venv; python3 /srv/run_page.py /srv/first-model.md")
    root.rows[-1:] = [line for line in said.splitlines() if re.fullmatch(r"\| .* \| \d+ s \| \d+ s \|", line)]


def with_data(root):
    """Certifies a table and class folders, and runs the notebook in an empty folder, all without PyTorch."""
    shutil.copytree(REPOSITORY / "out/wheel", root.folder / "srv/wheel")
    home = root.folder / "home/me"
    for name, code in (("table.py", TABLE), ("folders.py", FOLDERS)):
        (home / name).write_text(code)
    (home / "notebook").mkdir()
    shutil.copy(REPOSITORY / "docs/first-steps.ipynb", home / "notebook")
    root.run("chown -R me: /home/me", "root")
    root.env = {"PIP_FIND_LINKS": "/srv/wheel", "PIP_PRE": "1", "PIP_NO_CACHE_DIR": "1"}
    root.apt("--no-install-recommends python3 python3-venv")
    root.step("python3 -m venv venv")
    root.env |= {"PATH": "/home/me/venv/bin:/usr/local/bin:/usr/bin:/bin"}
    root.step("pip install rscert")
    root.env.pop("PIP_PRE")
    root.step("pip install onnx scikit-learn skl2onnx pillow nbclient ipykernel")
    root.step("python table.py", "the Python that writes a model and the tables `train.csv` and `test.csv`")
    scaled = "--sigma 0.5 --sigma-scale std --scale-data train.csv"
    root.step(f"rscert certify --model table.onnx --data test.csv {scaled} --check")
    root.step(f"rscert certify --model table.onnx --data test.csv {scaled} --n 1000 --out table")
    root.step("rscert report table")
    root.step("python folders.py", "the Python that writes a model and a folder of PNG files for each class")
    root.step("rscert certify --model folders.onnx --data val --sigma 0.25 --check")
    root.step("rscert certify --model folders.onnx --data val --sigma 0.25 --n 1000 --max 100 --out folders")
    root.step("rscert report folders --html folders.html")
    root.step("cd notebook && jupyter execute first-steps.ipynb")


EXPORT = """
def save(model, x, path):
    onx = to_onnx(model, x[:1].astype("float32"), options={id(model): {"zipmap": False}})
    open(path, "wb").write(onx.SerializeToString())
"""

TABLE = """import numpy as np
import pandas as pd
from skl2onnx import to_onnx
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
""" + EXPORT + """
table = load_breast_cancer(as_frame=True).frame  # 30 columns in different units, and a column 'target'
train, test = table[:400], table[400:]
train.to_csv("train.csv", index=False)
test.to_csv("test.csv", index=False)
x, y = train.drop(columns="target").to_numpy(), train.target.to_numpy()
noisy = np.tile(x, (20, 1)) + 0.5 * x.std(0) * np.random.default_rng(1).normal(size=(20 * len(x), 30))
save(make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(noisy, np.tile(y, 20)), x, "table.onnx")
"""

FOLDERS = """import os
import numpy as np
from PIL import Image
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
""" + EXPORT + """
digits = load_digits()
images = np.round(digits.images * 255 / 16).astype(np.uint8)
for i, (image, label) in enumerate(zip(images[1300:], digits.target[1300:])):
    os.makedirs(f"val/{label}", exist_ok=True)
    Image.fromarray(image).save(f"val/{label}/{i}.png")
x, y = images[:1300].reshape(-1, 64) / 255, digits.target[:1300]
noisy = np.tile(x, (10, 1)) + 0.25 * np.random.default_rng(1).normal(size=(10 * len(x), 64))
save(LogisticRegression(max_iter=200).fit(noisy, np.tile(y, 10)), x, "folders.onnx")
"""


def by_go(root):
    shutil.copytree(root.work / "proxy", root.folder / "srv/proxy")
    examples(root)
    proxy = subprocess.run(["go", "env", "GOPROXY"], capture_output=True, text=True, check=True).stdout.strip()
    root.env = {"GOPROXY": f"file:///srv/proxy,{proxy}", "GONOSUMDB": MODULE}
    install = f"go install {MODULE}/cmd/rscert@latest"
    root.apt("--no-install-recommends golang-go")
    root.stumble("a new enough Go, if the download of Go is forbidden", f"GOTOOLCHAIN=local {install}", r"requires go >= 1\.",
                 "`go env -u GOTOOLCHAIN`: Go 1.21 and later fetch the Go that the module asks for")
    root.stumble("a C compiler", install, "needs_cgo_and_a_C_compiler", "`apt-get install gcc libc6-dev`")
    root.apt("gcc libc6-dev")
    root.step(install)
    root.stumble("`~/go/bin` on the PATH", "rscert doctor", "rscert: command not found", '`PATH="$PATH:$(go env GOPATH)/bin"`')
    root.env["PATH"] = "/usr/local/bin:/usr/bin:/bin:/home/me/go/bin"
    root.stumble("ONNX Runtime", "rscert doctor", "hint: run 'rscert setup'", "`rscert setup`")
    fetch(root)
    root.step("rscert setup")
    root.step("rscert doctor")
    root.step(EXAMPLE)
    root.step("rscert report run")


def by_git(root):
    shutil.copytree(root.work / "clone/.git", root.folder / "srv/rscert.git")
    root.apt("--no-install-recommends git make")
    root.step(f"git config --global url.file:///srv/rscert.git.insteadOf https://{MODULE} && "
              "git config --global safe.directory '*'")
    root.rows.pop()
    root.step(f"git clone https://{MODULE}")
    root.stumble("Go", "make -C rscert demo", "go is not on the PATH", "`apt-get install golang-go`, or from go.dev")
    root.apt("--no-install-recommends golang-go")
    root.stumble("a C compiler", "make -C rscert demo", "the C compiler 'gcc' is not on the PATH", "as the message says")
    root.apt("gcc libc6-dev")
    fetch(root)
    root.step("make -C rscert demo")
    root.step("rscert/bin/rscert report rscert/out/demo-*")


EXAMPLE = "rscert certify --model mnist-cnn.onnx --data mnist --sigma 0.5 --n 1000 --max 50 --out run"


def examples(root):
    """Gives the user a model and data, because the user has no copy of the repository."""
    home = root.folder / "home/me"
    shutil.copy(REPOSITORY / "testdata/mnist-cnn.onnx", home)
    shutil.copytree(REPOSITORY / "testdata/mnist", home / "mnist")


def fetch(root):
    """Installs with pip, but without access to ONNX Runtime's releases on GitHub. rscert setup then takes the wheel."""
    root.run("apt-get install -y -qq --no-install-recommends python3-pip", "root")


WAYS = {"pip": by_pip, "data": with_data, "go": by_go, "git": by_git}
MADE = {"pip": "made: newcomer-pip", "data": "made: newcomer-data", "go": "made: newcomer-go", "git": "made: newcomer-git"}

if __name__ == "__main__":
    main()
