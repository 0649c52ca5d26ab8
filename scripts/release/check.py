"""Checks the release in a folder: python3 scripts/release/check.py out/release."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

COMPLETIONS = {"_rscert", "rscert.bash", "rscert.fish"}
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def run(*words: str | Path) -> str:
    return subprocess.run([str(w) for w in words], check=True, stdout=subprocess.PIPE, text=True).stdout


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(folder: Path) -> None:
    version = json.loads((folder / "metadata.json").read_text())["version"]
    commit = run("git", "rev-parse", "HEAD").strip()
    sums = dict(reversed(line.split()) for line in (folder / "SHA256SUMS").read_text().splitlines())
    for name, digest in sums.items():
        check(sha256(folder / name) == digest, f"{name} has another SHA-256 than SHA256SUMS says")
    published = {p.name for kind in ("*.tar.gz", "*.deb", "*.rpm", "*.cdx.json") for p in folder.glob(kind)}
    check(published == set(sums), f"SHA256SUMS lists other files: {published ^ set(sums)}")
    pages = {p.name for p in Path("out/package/man").glob("*.1")}
    check("rscert.1" in pages and "rscert-certify.1" in pages, f"man pages are missing: {pages}")
    archives = sorted(folder.glob("*.tar.gz"))
    check(bool(archives), f"{folder} has no archives")
    cask = (folder / "homebrew/Casks/rscert.rb").read_text()
    check({Path(p).name for p in re.findall(r'manpage "(.*)"', cask)} == pages, "the cask has not all man pages")
    for archive in archives:
        check(f'sha256 "{sums[archive.name]}"' in cask, f"the cask has not the SHA-256 of {archive.name}")
        with tempfile.TemporaryDirectory() as scratch:
            check_archive(archive, version, commit, pages, Path(scratch))
    linux = sum("-linux-" in archive.name for archive in archives)
    packages = {kind: len(list(folder.glob(f"*.{kind}"))) for kind in ("deb", "rpm")}
    check(packages == {"deb": linux, "rpm": linux}, f"{linux} archives for Linux, but packages: {packages}")
    for package in sorted(folder.glob("*.deb")):
        check_package(package, deb_files(package), pages)
    if shutil.which("rpm"):
        for package in sorted(folder.glob("*.rpm")):
            check_package(package, set(run("rpm", "-qlp", package).splitlines()), pages)
    for name in sorted(sums):
        print(f"{(folder / name).stat().st_size / 1e6:6.1f} MB  {name}")


def deb_files(package: Path) -> set[str]:
    return {line.split()[5].removeprefix(".") for line in run("dpkg-deb", "--contents", package).splitlines()}


def check_archive(archive: Path, version: str, commit: str, pages: set[str], scratch: Path) -> None:
    with tarfile.open(archive) as t:
        t.extractall(scratch, filter="data")
    found = {str(p.relative_to(scratch)) for p in scratch.rglob("*") if p.is_file()}
    want = {"rscert", "LICENSE", "NOTICE", "THIRD_PARTY_LICENSES", "CHANGELOG.md"}
    want |= {f"man/{p}" for p in pages} | {f"completions/{c}" for c in COMPLETIONS}
    check(found == want, f"{archive.name} differs from what is wanted in {found ^ want}")
    program = scratch / "rscert"
    described = [line.split() for line in run("go", "version", "-m", program).splitlines()]
    arch = archive.name.removesuffix(".tar.gz").rsplit("-", 1)[1]
    check(["build", f"GOARCH={arch}"] in described, f"{archive.name} holds a program of another processor")
    check(["build", "-buildmode=pie"] in described, f"{archive.name} holds a program that is not position-independent")
    licences = (scratch / "THIRD_PARTY_LICENSES").read_text()
    unlicensed = [line[1] for line in described if line[0] == "dep" and f"\n{line[1]} {line[2]}: " not in licences]
    check(not unlicensed, f"{archive.name} lacks the licences of {unlicensed}")
    modules = {f"pkg:golang/{line[1].lower()}@{line[2]}" for line in described if line[0] == "dep"}
    check(any("onnxruntime_go" in m for m in modules), f"{archive.name} does not say its modules")
    name = f"{archive.name.removesuffix('.tar.gz')}.cdx.json"
    document = json.loads((archive.parent / name).read_text())
    listed = {c["purl"] for c in document["components"]}
    check(modules < listed, f"{name} lacks {modules - listed}")
    hashes = document["metadata"]["component"]["hashes"]
    check(hashes == [{"alg": "SHA-256", "content": sha256(program)}], f"{name} is of another program")
    if "-linux-" in archive.name:
        emulator = [] if MACHINES[arch] == os.uname().machine else [shutil.which(f"qemu-{MACHINES[arch]}-static")]
        if emulator == [None]:
            print(f"check.py: {archive.name}: --version not tried, for want of an emulator", file=sys.stderr)
            return
        # An emulator needs the other processor's loader and C library.
        if emulator:
            emulator += ["-L", f"/usr/{MACHINES[arch]}-linux-gnu"]
        said = run(*emulator, program, "--version").splitlines()
        check(said[:2] == [f"rscert {version}", f"commit {commit}"], f"{archive.name} says {said}")


def check_package(package: Path, files: set[str], pages: set[str]) -> None:
    want = {"/usr/bin/rscert", "/usr/share/bash-completion/completions/rscert", "/usr/share/doc/rscert/NOTICE"}
    want.add("/usr/share/doc/rscert/THIRD_PARTY_LICENSES")
    want |= {"/usr/lib/systemd/system/rscert.service", "/etc/rscert/serve.env"}
    want |= {f"/usr/share/man/man1/{p}.gz" for p in pages}
    check(want <= files, f"{package.name} lacks {want - files}")


def check(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"check.py: {otherwise}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
