# SPDX-License-Identifier: Apache-2.0
"""Palyra measured beside references, in one run: ``python -m bench [--only group,name]``.

- *figure*: one ratio, ours by reference, and what it should reach.
- *experiment*: what measures one or more figures, round by round; one file each.
- *pair*: what one round measured, both sides in the same minute on the same machine.
"""
