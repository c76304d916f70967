# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from palyra.core.posture import Posture
from palyra.tools.built_in import built_in_catalogue
from palyra.tools.files import FILE_TOOLS
from palyra.tools.posture_presets import POSTURE_PRESETS

FREE, ASK, OFF = Posture.ALWAYS_ALLOW, Posture.ASK_EACH_TIME, Posture.DISABLED
LOOKING = ("palyra.fs.read", "palyra.fs.list", "palyra.fs.search")
CHANGING = ("palyra.fs.write", "palyra.fs.apply_patch")


def test_there_are_four() -> None:
    assert set(POSTURE_PRESETS) == {
        "conservative_coding",
        "browser_assist",
        "read_mostly_research",
        "automation_review",
    }


@pytest.mark.parametrize(
    ("name", "looking", "changing"),
    [
        ("conservative_coding", FREE, ASK),
        ("browser_assist", ASK, OFF),
        ("read_mostly_research", FREE, OFF),
        ("automation_review", ASK, ASK),
    ],
)
def test_what_a_preset_sets(name: str, looking: Posture, changing: Posture) -> None:
    expected = dict.fromkeys(LOOKING, looking) | dict.fromkeys(CHANGING, changing)
    assert POSTURE_PRESETS[name].postures == expected


@pytest.mark.parametrize("name", sorted(POSTURE_PRESETS))
def test_every_tool_it_names_is_in_the_catalogue(name: str) -> None:
    catalogue = built_in_catalogue()
    assert all(catalogue.find(tool) is not None for tool in POSTURE_PRESETS[name].postures)


@pytest.mark.parametrize("name", sorted(POSTURE_PRESETS))
def test_no_file_tool_is_forgotten(name: str) -> None:
    assert set(POSTURE_PRESETS[name].postures) == {tool.name for tool in FILE_TOOLS}


@pytest.mark.invariant("I1")
@pytest.mark.parametrize("name", sorted(POSTURE_PRESETS))
def test_nothing_that_changes_files_is_free(name: str) -> None:
    postures = POSTURE_PRESETS[name].postures
    writers = {tool.name for tool in FILE_TOOLS if "filesystem_write" in tool.capabilities}
    assert writers == set(CHANGING)
    assert all(postures[tool] is not FREE for tool in writers)


@pytest.mark.parametrize("name", sorted(POSTURE_PRESETS))
def test_a_preset_says_what_it_is_for(name: str) -> None:
    description = POSTURE_PRESETS[name].description
    assert description[0].isupper()
    assert description.endswith(".")


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        POSTURE_PRESETS["own"] = POSTURE_PRESETS["browser_assist"]  # type: ignore[index]
