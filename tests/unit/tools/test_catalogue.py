# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.errors import Code, InputError
from palyra.tools.basic import BASIC_TOOLS, ECHO, SLEEP
from palyra.tools.catalogue import Catalogue

if TYPE_CHECKING:
    from palyra.core import ports


def test_catalogue_is_what_the_flow_needs() -> None:
    catalogue: ports.Catalogue = Catalogue(BASIC_TOOLS)
    assert catalogue.find("palyra.echo") is ECHO


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("palyra", id="a-prefix"),
        pytest.param("palyra.*", id="a-pattern"),
        pytest.param("Palyra.Echo", id="another-case"),
        pytest.param("palyra.echo ", id="a-space"),
        pytest.param("palyra.\u0435cho", id="a-look-alike"),
        pytest.param("", id="nothing"),
    ],
)
def test_only_the_exact_name_finds_a_tool(name: str) -> None:
    assert Catalogue(BASIC_TOOLS).find(name) is None


def test_nearest_name_is_suggested() -> None:
    assert Catalogue(BASIC_TOOLS).nearest("palyra.ecko") == "palyra.echo"
    assert Catalogue(BASIC_TOOLS).nearest("\ud800" * 10**6) is None


def test_tools_come_in_the_order_of_their_names() -> None:
    catalogue = Catalogue([SLEEP, ECHO])
    assert list(catalogue) == [ECHO, SLEEP]
    assert len(catalogue) == 2


def test_two_tools_of_one_name_are_refused() -> None:
    impostor = msgspec.structs.replace(ECHO, version="9.9.9")
    with pytest.raises(InputError, match=r"two tools have the name palyra\.echo") as caught:
        Catalogue([ECHO, SLEEP, impostor])
    assert caught.value.code is Code.TOOL_MANIFEST


def test_later_changes_to_the_list_do_not_reach_the_catalogue() -> None:
    manifests = [ECHO]
    catalogue = Catalogue(manifests)
    manifests.append(SLEEP)
    assert list(catalogue) == [ECHO]
