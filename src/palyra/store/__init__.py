# SPDX-License-Identifier: Apache-2.0
"""Where state and journal are kept: SQLite, behind the ports of the core.

``sqlite/`` is the store; ``head_file`` keeps the signed head outside the database; ``instances``
tells which process still lives. One SQLite binding (apsw) opens the database in a process: two
libraries on one file would not see each other's locks and lose data silently.
"""
