# SPDX-License-Identifier: Apache-2.0
"""Stage 2, decide: a proposal in, a decision out; silence forbids."""
