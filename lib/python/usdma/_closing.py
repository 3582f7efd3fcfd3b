# SPDX-License-Identifier: BSD-3-Clause
"""What has a close() is closed by the end of its `with` block."""


class Closing:
    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
