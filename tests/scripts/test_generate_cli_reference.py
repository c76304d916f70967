# SPDX-License-Identifier: Apache-2.0


from scripts import generate_cli_reference as script


def test_the_page_is_current() -> None:
    assert script.main(["--check"]) == 0


def test_every_command_is_described() -> None:
    page = script.render()
    for path in ("call", "journal verify", "attest show", "config init", "completion", "why"):
        assert f"## palyra {path}\n" in page
