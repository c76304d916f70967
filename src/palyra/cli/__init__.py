# SPDX-License-Identifier: Apache-2.0
"""The command line: one file per noun, imported only when its command runs.

A command returns one *reply*: the same facts as a document (``--json``) and as text for people.
The *frame* carries the global options, *output* prints, *faults* turns every exception into the
error reply of the contract, and *neutralise* makes untrusted text safe to look at (I12).
"""
