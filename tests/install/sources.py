# SPDX-License-Identifier: BSD-3-Clause
"""Copies the source tree without build outputs."""
import os
import shutil
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def copy_tree(to):
    """Copies the files that git lists, with uncommitted changes; without git, all files but those of build folders."""
    listed = shutil.which("git") and subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                                    cwd=TOP, capture_output=True, text=True, check=False)
    if not listed or listed.returncode:
        shutil.copytree(TOP, to, symlinks=True, ignore=shutil.ignore_patterns("build*", ".git", "__pycache__"))
        return
    for name in filter(None, listed.stdout.split("\0")):
        if os.path.lexists(os.path.join(TOP, name)):
            os.makedirs(os.path.dirname(os.path.join(to, name)), exist_ok=True)
            shutil.copy2(os.path.join(TOP, name), os.path.join(to, name), follow_symlinks=False)
