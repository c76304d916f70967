# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import click
import pytest

from palyra.cli.policy_reading import (
    content_at,
    content_in,
    journal_of,
    kept_digest,
    rules_in_force,
    rules_of,
    since_ms,
)
from palyra.core.digest import PolicyDigest
from palyra.core.errors import ConfigError, IntegrityError, NotFoundError
from palyra.core.ports import RulesInForce, StagedPack
from palyra.core.posture import PostureSetting
from palyra.daemon.rules_reading import PackagedRules
from palyra.flow.policy.presets import packaged_pack
from tests.support.own_policies import EXAMPLES, NO_ECHO, WAIVER, write_policies

DIGESTS = ("abcdef01" + "0" * 56, "abcdef01" + "1" * 56, "1234567890" + "2" * 54)


class Kept:
    """A store of packs that are only names."""

    def rules_version(self) -> int:
        return 0

    def rules_in_force(self) -> RulesInForce | None:
        return None

    def pack(self, policy_digest: PolicyDigest) -> StagedPack | None:
        return self.packs()[0] if policy_digest == DIGESTS[0] else None

    def packs(self) -> tuple[StagedPack, ...]:
        return tuple(
            StagedPack(
                policy_digest=PolicyDigest(digest), staged_at_ms=0, was_active=False, body=b"x"
            )
            for digest in DIGESTS
        )

    def postures(self) -> tuple[PostureSetting, ...]:
        return ()


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        pytest.param(DIGESTS[0], DIGESTS[0], id="the-whole"),
        pytest.param("12345678", DIGESTS[2], id="the-first-eight"),
        pytest.param(" ABCDEF0111 ", DIGESTS[1], id="in-capitals"),
    ],
)
def test_a_digest_is_found(text: str, digest: str) -> None:
    assert kept_digest(Kept(), text) == digest


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("abcdef01", id="the-first-of-two"),
        pytest.param("1234567", id="too-few"),
        pytest.param("1234567890" + "2" * 55, id="too-many"),
        pytest.param("nonsense", id="no-digits"),
        pytest.param("", id="nothing"),
    ],
)
def test_what_names_no_digest_is_a_wrong_command_line(text: str) -> None:
    with pytest.raises(click.UsageError):
        kept_digest(Kept(), text)


def test_a_digest_that_is_not_kept_is_not_found() -> None:
    with pytest.raises(NotFoundError) as caught:
        kept_digest(Kept(), "deadbeef")
    assert "palyra policy stage" in caught.value.hint


@pytest.mark.invariant("I1")
def test_rules_that_cannot_be_loaded_are_a_fault() -> None:
    with pytest.raises(IntegrityError, match="no policies are in force") as caught:
        rules_in_force(Kept())
    assert "palyra policy stage" in caught.value.hint
    with pytest.raises(IntegrityError, match="are not kept"):
        rules_of(Kept(), PolicyDigest(DIGESTS[1]))
    with pytest.raises(IntegrityError, match="is not what was staged"):
        rules_of(Kept(), PolicyDigest(DIGESTS[0]))


def test_before_the_first_start_the_packaged_rules_hold() -> None:
    assert rules_in_force(PackagedRules()).pack == packaged_pack()
    assert journal_of(PackagedRules()) is None


def test_policies_have_the_names_of_their_files_and_tables_the_paths_given(tmp_path: Path) -> None:
    folder = write_policies(
        tmp_path / "some", a__cedar=WAIVER, a__toml=EXAMPLES, members__toml="[roles]\n"
    )
    other = write_policies(tmp_path / "other", b__cedar=NO_ECHO) / "b.cedar"
    content = content_at((f"{folder}/", str(other)))
    assert [source.name for source in content.sources] == ["a.cedar", "b.cedar"]
    assert content.typed == {
        "a.cedar": f"{folder}/a.cedar",
        "b.cedar": str(other),
        "members.toml": f"{folder}/members.toml",
    }
    assert [name for name, _ in content.cases] == [f"{folder}/a.toml"]
    assert content.members_toml == b"[roles]\n"
    alone = content_at((str(folder / "members.toml"), str(folder / "a.toml")))
    assert (alone.members_toml, alone.sources) == (b"[roles]\n", ())
    assert alone.cases == ((str(folder / "a.toml"), EXAMPLES.encode()),)


@pytest.mark.invariant("I1")
def test_no_file_passes_for_a_packaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_policies(tmp_path / "palyra", base__cedar=WAIVER)
    write_policies(tmp_path / "other", base__cedar=NO_ECHO)
    for path in ("palyra", "palyra/base.cedar"):
        content = content_at(("other", path))
        assert [source.name for source in content.sources] == ["base.cedar", "./palyra/base.cedar"]
        assert content.typed == {
            "base.cedar": "other/base.cedar",
            "./palyra/base.cedar": "palyra/base.cedar",
        }


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    folder = write_policies(tmp_path / "some", members__toml="", other__txt="", bad__cedar="")
    (folder / "bad.cedar").write_bytes(b"\xff")
    members = str(folder / "members.toml")
    for paths in (
        (str(folder / "other.txt"),),
        (str(tmp_path / "none.cedar"),),
        (str(tmp_path / "none"),),
        (str(folder / "bad.cedar"),),
        (members, members),
    ):
        with pytest.raises(click.UsageError):
            content_at(paths)
    with pytest.raises(ConfigError):
        content_at((str(folder),))
    with pytest.raises(click.UsageError, match="is not a folder"):
        content_in(members)


def test_long_ago_is_the_beginning_of_time() -> None:
    assert since_ms(1 << 60) == 0
    assert since_ms(1) > 0
