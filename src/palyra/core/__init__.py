# SPDX-License-Identifier: Apache-2.0
"""The words: values and pure rules. No I/O, no clock, no randomness.

A *proposal* is what an agent asks for; a *decision* is what policy says of it; an *approval* is a
human's answer; a *permit* is the right to launch, built only from those; an *execution* is what
came of it; an *attestation* is the signed statement of all that. *Transitions* change state and
carry the *events* that record them. *Ports* are what the flow needs from outside.
"""
