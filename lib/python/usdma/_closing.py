# SPDX-License-Identifier: BSD-3-Clause
"""Base of classes with close(), which a `with` block calls at its end."""


class Closing:
    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
