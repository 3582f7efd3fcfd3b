#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""usdma.spdx.json against the libraries that are loaded (readelf) and compiled in (ninja), by Debian's packages.  TAP.

sbom.py BUILD_DIR SBOM FILE...
"""
import functools
import json
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from tap import Points  # noqa: E402

points = Points()
point = points.add
# The C library's and the compiler's own headers belong to what is loaded.
BASE = re.compile(r"(libc6|linux-libc|libstdc\+\+-\d+|libgcc-\d+|libcrypt|systemtap-sdt)-dev$|(cpp|gcc|g\+\+)-\d+$|python3|libpython3|libexpat1-dev")
# Debian's names of packages that have another name in the SBOM.
NAMES = {"libcli11-dev": "CLI11", "nlohmann-json3-dev": "nlohmann_json", "pybind11-dev": "pybind11"}


def said(*words, cwd=None):
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd).stdout


def names_of(path):
    real = os.path.realpath(path)
    return real, "/usr" + real, real.removeprefix("/usr")


OWNERS = {}  # package by file


def find_owners(paths):
    """One search for all paths: each call of dpkg-query reads every list of files."""
    for line in said("dpkg-query", "-S", *{name for path in paths for name in names_of(path)}).splitlines():
        packages, _, name = line.rpartition(": ")
        OWNERS[name] = re.match(r"[^:,]+", packages)[0]


def owner(path):
    """The Debian package of a file, found by any of the file's names."""
    return next((OWNERS[name] for name in names_of(path) if name in OWNERS), None)


@functools.cache
def version(package):
    """The upstream version."""
    text = said("dpkg-query", "-W", "-f", "${Version}\n", package).splitlines()
    return re.sub(r"^\d+:|[-+~][^-]*$", "", text[0]) if text else "?"


def source_of(package):
    return said("dpkg-query", "-W", "-f", "${source:Package}\n", package).splitlines()[0]


def check_form(doc):
    missing = [k for k in ("spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo") if not doc.get(k)]
    ids = [p["SPDXID"] for p in doc["packages"]]
    wrong = [p["SPDXID"] for p in doc["packages"] if not re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", p["SPDXID"]) or not p["name"] or
             "downloadLocation" not in p]
    related = {r[k] for r in doc["relationships"] for k in ("spdxElementId", "relatedSpdxElement")}
    point(doc["spdxVersion"] == "SPDX-2.3" and not missing and not wrong and len(ids) == len(set(ids)) and related <= set(ids),
          "SPDX 2.3: the required fields, and unique identifiers", f"{missing} {wrong} {related - set(ids)}")


def soname_of(path):
    return (re.findall(r"\(SONAME\).*\[(.+)\]", said("readelf", "-dW", path)) or [os.path.basename(path)])[0]


def links(doc, parts, path, libraries):
    mine = next((i for i, p in parts.items() if p.get("packageFileName") == soname_of(path)), None)
    named = {parts[r["relatedSpdxElement"]].get("packageFileName") for r in doc["relationships"]
             if r["spdxElementId"] == mine and r["relationshipType"] == "DYNAMIC_LINK"}
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", said("readelf", "-dW", path)))
    point(mine and needed and named == needed, f"{os.path.basename(path)}: what it loads", f"differ: {named ^ needed}")
    for name, at in libraries.items():
        if name in needed and owner(at):
            claimed = [p["versionInfo"] for p in parts.values() if p.get("packageFileName") == name]
            real = version(owner(at))
            # Not the last part of three: Debian 13's fmt.pc has 10.1.0 in package 10.1.1.
            shorter = re.sub(r"^(\d+\.\d+)\.\d+$", r"\1", claimed[0]) if claimed else ""
            point(claimed and (real.startswith(shorter) or claimed[0].startswith(real)),
                  f"{os.path.basename(path)}: {name} is of version {real}", str(claimed))


def compiled_from(build):
    """Debian packages of the headers in what is installed."""
    text = said("ninja", "-C", build, "-t", "deps")
    found = {}
    for block in re.split(r"\n\n", text):
        target = block.lstrip().split(":")[0]
        if target.startswith(("driver/", "lib/", "tools/")):
            for header in re.findall(r"^\s+(/usr/include/\S+)", block, re.M):
                found.setdefault(header, target)
    lines = said("dpkg-query", "-S", *{os.path.realpath(h) for h in found}).splitlines()
    packages = {name.split(":")[0] for line in lines if ": /" in line for name in line.rsplit(": /", 1)[0].split(", ")}
    return {p for p in packages if not BASE.match(p)}


def compiled_in(doc, parts, build, linked):
    claimed = {parts[r["relatedSpdxElement"]]["name"]: parts[r["relatedSpdxElement"]]["versionInfo"] for r in doc["relationships"]
               if r["relationshipType"] == "STATIC_LINK"}
    loaded = {owner(at) for at in linked} - {None}
    sources = {source_of(p) for p in loaded}
    real = {}
    for package in compiled_from(build):
        if source_of(package) not in sources:
            real[NAMES.get(package, "boost" if package.startswith("libboost") else package)] = version(package)
    point(real and set(real) == set(claimed), "what is compiled in", f"differ: {set(real) ^ set(claimed)}")
    for name in sorted(set(real) & set(claimed)):
        point(real[name].startswith(claimed[name]), f"{name} is of version {real[name]}", claimed[name])


def supported(doc):
    """The table of SECURITY.md names the version that is built; while there is no mail address, SECURITY.md explains where reports go."""
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(top, "SECURITY.md"), encoding="utf-8") as f:
        text = f.read()
    now = next(p["versionInfo"] for p in doc["packages"] if p["SPDXID"] == "SPDXRef-usdma")
    row = re.search(r"^\| (\S+), the latest release \| yes \|$", text, re.M)
    point(row is not None and now.startswith(row[1] + "."), f"SECURITY.md: {now} is supported", str(row))
    with open(os.path.join(top, "debian/control"), encoding="utf-8") as f:
        no_maintainer = re.search(r"^Maintainer: .*\.invalid>$", f.read(), re.M)
    point(no_maintainer and "no mail address of its own" in text, "SECURITY.md: there is no mail address, and debian/control has none", text[:400])


def main():
    build, sbom, *files = sys.argv[1:]
    loaded = {path: dict(re.findall(r"(\S+) => (/\S+)", said("ldd", path))) for path in files}
    linked = {at for libraries in loaded.values() for at in libraries.values()}
    if shutil.which("dpkg-query"):
        find_owners(linked | {"/bin/sh"})
    if not owner("/bin/sh"):
        print("1..0 # SKIP no Debian packages on this machine")
        return 0
    with open(sbom, encoding="utf-8") as f:
        doc = json.load(f)
    parts = {p["SPDXID"]: p for p in doc["packages"]}
    check_form(doc)
    supported(doc)
    for path, libraries in loaded.items():
        links(doc, parts, path, libraries)
    compiled_in(doc, parts, build, linked)
    return points.end()


sys.exit(main())
