# SPDX-License-Identifier: Apache-2.0
"""Stage 4, execute: a permit in, an execution with what was observed out.

``execute`` takes the permit, keeps the time and turns every end into an outcome; ``builtin`` and
``files`` are tool bodies; ``beneath`` and ``staged`` keep file tools inside their workspace.
"""
