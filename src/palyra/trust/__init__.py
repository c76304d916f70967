# SPDX-License-Identifier: Apache-2.0
"""Who may: the keys that sign, and later the identities, tokens and secrets."""
