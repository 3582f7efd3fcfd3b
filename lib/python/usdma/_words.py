# SPDX-License-Identifier: BSD-3-Clause
"""Words as arguments."""


def word(what, value, words):
    """words[value]; a wrong one raises ValueError with the right ones."""
    try:
        return words[value]
    except (KeyError, TypeError):  # TypeError: not hashable
        raise ValueError(f"{what} {value!r} is none of {', '.join(words)}") from None
