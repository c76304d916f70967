# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from palyra.core.errors import Code, InputError
from palyra.core.workspace import Workspace


@pytest.mark.parametrize("name", ["a", "site", "My-Site_2.0", "_x", "x" * 64])
def test_names(name: str) -> None:
    assert Workspace(name=name, root="/srv/site", device=1, inode=2).name == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", ".x", "-x", "a/b", "a b", "a\n", "x" * 65, "\u00e9", "a\u202e"],
    ids=ascii,
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InputError) as caught:
        Workspace(name=name, root="/srv/site", device=1, inode=2)
    assert caught.value.code is Code.WORKSPACE_REFUSED
