# SPDX-License-Identifier: Apache-2.0
"""Stage 3, approve: a question in, an approval, a grant or a rejection out."""
