# SPDX-License-Identifier: Apache-2.0
from palyra.daemon.compose import BODIES
from palyra.daemon.settings import BUILT_IN_TOOLS as ALLOWED_BY_DEFAULT
from palyra.tools.built_in import built_in_catalogue


def test_every_built_in_tool_has_a_body_and_the_reverse() -> None:
    assert {manifest.name for manifest in built_in_catalogue()} == set(BODIES)


def test_the_built_in_tools_are_what_the_settings_allow_by_default() -> None:
    assert {manifest.name for manifest in built_in_catalogue()} == set(ALLOWED_BY_DEFAULT)
