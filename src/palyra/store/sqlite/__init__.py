# SPDX-License-Identifier: Apache-2.0
"""The SQLite store.

``database`` opens connections and names faults; ``schema`` is the tables; ``apply`` turns one
transition into SQL, ``rules`` one that changes policies or postures; ``appender`` links entries and
commits a batch; ``group_commit`` forms batches; ``reads`` answers questions; ``ledger`` joins them
behind the ports.
"""
