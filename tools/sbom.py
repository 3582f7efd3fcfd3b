#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes an SPDX 2.3 document of the built libraries and programs: what they load, and what is compiled in.

sbom.py BUILD_DIR OUTPUT VERSION COMPILER_VERSION FILE...
"""
import datetime
import json
import os
import re
import subprocess
import sys

# Found by meson, but not part of anything installed.
NOT_SHIPPED = ("threads", "dl", "cmocka", "fuse3", "systemd", "udev", "boost_headers")
COMPILER = ("libstdc++.so", "libgcc_s.so", "libatomic.so")
LIBC = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "ld-linux")


def tagged(path, tag):
    out = subprocess.run(["readelf", "--wide", "--dynamic", path], capture_output=True, text=True, check=True).stdout
    return re.findall(rf"\({tag}\).*\[(.+)\]", out)


def dependencies(build):
    """(name, version, soname) of each; soname is None for those without a shared library."""
    with open(os.path.join(build, "meson-info/intro-dependencies.json"), encoding="utf-8") as f:
        listed = [d for d in json.load(f) if d["name"] not in NOT_SHIPPED and not d["name"].startswith("python") and d.get("type") != "internal"]
    for d in listed:
        libraries = [a for a in d["link_args"] if ".so" in a and os.path.exists(a)]
        if not libraries:
            yield d["name"], d["version"], None
        for library in libraries:  # UCX has several
            yield d["name"], d["version"], tagged(library, "SONAME")[0]


def part(name, version, soname=None):
    made = {"SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", soname or name), "name": name, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
            "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION"}
    return {**made, "packageFileName": soname} if soname else made


def loaded(soname, found, compiler):
    """The part that provides a soname that a file needs."""
    for name, version, of in found:
        if of == soname:
            return part(name, version, soname)
    if soname.startswith(COMPILER):
        return part("gcc", compiler, soname)
    if soname.startswith(LIBC):
        return part("glibc", os.confstr("CS_GNU_LIBC_VERSION").split()[-1], soname)
    return part(soname, "NOASSERTION", soname)


def document(build, version, compiler, files):
    found, own = list(dependencies(build)), {}
    for path in files:
        name = (tagged(path, "SONAME") or [os.path.basename(path)])[0]
        own[name] = part("usdma", version, name), tagged(path, "NEEDED")
    parts, links = {"usdma": part("usdma", version)}, []
    for made, needed in own.values():
        parts[made["SPDXID"]] = made
        links.append(("SPDXRef-usdma", "CONTAINS", made["SPDXID"]))
        for soname in needed:
            other = own[soname][0] if soname in own else loaded(soname, found, compiler)
            parts.setdefault(other["SPDXID"], other)
            links.append((made["SPDXID"], "DYNAMIC_LINK", other["SPDXID"]))
    for name, of, soname in found:
        if not soname:
            parts[name] = part(name, of)
            links.append(("SPDXRef-usdma", "STATIC_LINK", parts[name]["SPDXID"]))
    return parts.values(), links


def written(version, parts, links):
    # The same sources give the same file.
    when = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"usdma-{version}",
            "documentNamespace": f"https://usdma.invalid/spdx/usdma-{version}",
            "creationInfo": {"created": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: usdma-sbom.py"]},
            "documentDescribes": ["SPDXRef-usdma"], "packages": list(parts),
            "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b} for a, kind, b in links]}


def main():
    build, output, version, compiler, *files = sys.argv[1:]
    parts, links = document(build, version, compiler, files)
    with open(output, "w", encoding="utf-8") as f:
        json.dump(written(version, parts, links), f, indent=1)
        f.write("\n")


main()
