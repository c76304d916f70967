# SPDX-License-Identifier: Apache-2.0
"""Stage 1: what an agent sent becomes a proposal, or is refused with the place of its fault.

Nothing beyond this folder ever sees arguments that are not strict JSON within the tool's schema,
and the journal keeps no secret value of them.
"""
