# SPDX-License-Identifier: Apache-2.0


from palyra.core.errors import Code
from scripts import generate_error_codes as script


def test_the_page_is_current() -> None:
    assert script.main(["--check"]) == 0


def test_every_code_has_a_row() -> None:
    page = script.render()
    assert all(f"| `{code.value}` |" in page for code in Code)
