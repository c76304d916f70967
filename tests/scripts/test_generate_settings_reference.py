# SPDX-License-Identifier: Apache-2.0
from palyra.daemon.settings import KEYS
from scripts import generate_settings_reference as script


def test_the_page_is_current() -> None:
    assert script.main(["--check"]) == 0


def test_every_key_has_a_section() -> None:
    page = script.render()
    assert all(f"## `{name}`" in page for name in KEYS)
