# SPDX-License-Identifier: Apache-2.0
"""``python -m palyra`` is ``palyra``."""

import sys

from palyra.cli.main import main

sys.exit(main())
