# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from palyra.core.errors import Code, NotFoundError, PalyraError, StateConflictError
from palyra.core.posture import Posture, PostureScope, PostureSetting
from palyra.core.principal import Principal, PrincipalKind
from palyra.core.transitions import SetPosture
from palyra.store.sqlite import rules as rules_module
from palyra.store.sqlite.rules import MOST_STAGED, Rules
from tests.support.samples import NOW_MS
from tests.support.store import (
    POSTURE,
    activate,
    clear_posture,
    memory_database,
    pack_body,
    pack_digest,
    set_posture,
    stage,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import apsw

    from palyra.core.transitions import ActivatePack, ClearPosture, StagePack

change = msgspec.structs.replace
GLOBAL = change(
    POSTURE, scope=PostureScope.GLOBAL, scope_id="", by_administrator=False, expires_at_ms=None
)


@pytest.fixture
def connection() -> apsw.Connection:
    return memory_database()


@pytest.fixture
def rules(connection: apsw.Connection) -> Rules:
    return Rules(connection)


@pytest.fixture
def in_force(rules: Rules) -> Rules:
    """Return rules of which the first pack is in force."""
    rules.stage(stage(1))
    rules.activate(activate(1, before=None))
    return rules


def state(connection: apsw.Connection) -> dict[str, list[Any]]:
    return {
        table: connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - constants
        for table in ("packs", "rules", "postures")
    }


def refusal(connection: apsw.Connection, deed: Callable[[], object]) -> PalyraError:
    """Return the refusal, and check that it left nothing behind."""
    before = state(connection)
    with pytest.raises((StateConflictError, NotFoundError)) as refused:
        deed()
    assert state(connection) == before
    return refused.value


def test_before_the_first_policies_the_version_is_zero(rules: Rules) -> None:
    assert rules.version == 0


def test_the_version_of_others_is_read(connection: apsw.Connection, in_force: Rules) -> None:
    in_force.set_posture(set_posture())
    assert Rules(connection).version == 2


def test_the_version_is_read_once_for_a_commit(
    connection: apsw.Connection, in_force: Rules
) -> None:
    statements: list[str] = []

    def note(_: object, statement: str, __: object) -> bool:
        statements.append(statement)
        return True

    connection.exec_trace = note
    assert [in_force.version for _ in range(3)] == [1, 1, 1]
    assert len(statements) == 1


class TestStaging:
    """Packs are kept by their digest."""

    def test_a_pack_is_kept(self, connection: apsw.Connection, rules: Rules) -> None:
        rules.stage(stage(1))
        assert state(connection) == {
            "packs": [(pack_digest(1), NOW_MS, 0, pack_body(1))],
            "rules": [],
            "postures": [],
        }
        assert rules.version == 0

    def test_a_pack_staged_again_is_as_good_as_new(
        self, connection: apsw.Connection, in_force: Rules
    ) -> None:
        in_force.stage(stage(1, at_ms=NOW_MS + 5))
        assert state(connection)["packs"] == [(pack_digest(1), NOW_MS + 5, 1, pack_body(1))]

    @pytest.mark.invariant("I8")
    @pytest.mark.parametrize(
        "broken",
        [
            change(stage(1), body=pack_body(2)),
            change(stage(1), body=b""),
            change(stage(1), policy_digest=pack_digest(2)),
        ],
    )
    def test_a_pack_must_be_what_its_digest_says(
        self, connection: apsw.Connection, rules: Rules, broken: StagePack
    ) -> None:
        assert refusal(connection, lambda: rules.stage(broken)).code is Code.POLICY_INVALID

    @pytest.mark.invariant("I13")
    def test_the_oldest_of_too_many_are_dropped(
        self, connection: apsw.Connection, rules: Rules
    ) -> None:
        for number in range(MOST_STAGED + 3):
            rules.stage(stage(number, at_ms=NOW_MS + number))
        kept = {digest for digest, *_ in state(connection)["packs"]}
        assert kept == {pack_digest(number) for number in range(3, MOST_STAGED + 3)}

    @pytest.mark.invariant("I13")
    @pytest.mark.parametrize("step_ms", [0, -1], ids=["stands-still", "goes-back"])
    def test_the_one_staged_just_now_is_kept_whatever_the_clock_does(
        self, connection: apsw.Connection, rules: Rules, step_ms: int
    ) -> None:
        kept: set[str] = set()
        for number in range(MOST_STAGED + 3):
            rules.stage(stage(number, at_ms=NOW_MS + number * step_ms))
            kept = {digest for digest, *_ in state(connection)["packs"]}
            assert pack_digest(number) in kept
        assert len(kept) == MOST_STAGED

    def test_packs_that_were_in_force_are_kept_for_ever(
        self, connection: apsw.Connection, rules: Rules
    ) -> None:
        """Decisions refer to them."""
        before = None
        for number in range(MOST_STAGED + 3):
            rules.stage(stage(number))
            rules.activate(activate(number, before=before))
            before = number
        for number in range(100, 100 + MOST_STAGED + 3):
            rules.stage(stage(number))
        packs = state(connection)["packs"]
        assert [was_active for _, _, was_active, _ in packs].count(1) == MOST_STAGED + 3
        assert len(packs) == 2 * MOST_STAGED + 3


class TestActivation:
    """Which policies are in force is a compare-and-set."""

    def test_the_first_one_is_version_one(
        self, connection: apsw.Connection, in_force: Rules
    ) -> None:
        assert state(connection)["rules"] == [(1, 1, pack_digest(1))]
        assert state(connection)["packs"] == [(pack_digest(1), NOW_MS, 1, pack_body(1))]
        assert in_force.version == 1

    def test_another_one_replaces_it(self, connection: apsw.Connection, in_force: Rules) -> None:
        in_force.stage(stage(2))
        in_force.activate(activate(2, before=1))
        assert (in_force.version, state(connection)["rules"]) == (2, [(1, 2, pack_digest(2))])

    def test_an_earlier_one_comes_into_force_again(
        self, connection: apsw.Connection, in_force: Rules
    ) -> None:
        in_force.stage(stage(2))
        in_force.activate(activate(2, before=1))
        in_force.activate(activate(1, before=2))
        assert (in_force.version, state(connection)["rules"]) == (3, [(1, 3, pack_digest(1))])

    def test_an_unknown_one_is_refused(self, connection: apsw.Connection, in_force: Rules) -> None:
        refused = refusal(connection, lambda: in_force.activate(activate(2, before=1)))
        assert refused.code is Code.POLICY_UNKNOWN

    @pytest.mark.parametrize("activation", [activate(2, before=None), activate(2, before=3)])
    def test_one_decided_on_others_is_refused(
        self, connection: apsw.Connection, in_force: Rules, activation: ActivatePack
    ) -> None:
        in_force.stage(stage(2))
        refused = refusal(connection, lambda: in_force.activate(activation))
        assert (refused.code, pack_digest(1) in refused.message) == (Code.STATE_CONFLICT, True)

    def test_the_first_one_replaces_none(self, connection: apsw.Connection, rules: Rules) -> None:
        rules.stage(stage(1))
        refused = refusal(connection, lambda: rules.activate(activate(1, before=2)))
        assert refused.code is Code.STATE_CONFLICT


OTHERS = [
    change(POSTURE, state=Posture.ASK_EACH_TIME),
    change(POSTURE, reason="another"),
    change(POSTURE, set_by=Principal(kind=PrincipalKind.OPERATOR, name="eve")),
    change(POSTURE, by_administrator=False),
    change(POSTURE, set_at_ms=NOW_MS + 1),
    change(POSTURE, expires_at_ms=None),
]


class TestPostures:
    """One standing word for each tool and scope, each change a compare-and-set."""

    @pytest.mark.parametrize(
        ("setting", "row"),
        [
            (
                POSTURE,
                (
                    "palyra.echo",
                    "workspace",
                    "site",
                    "disabled",
                    "an incident",
                    "operator:grace",
                    1,
                    NOW_MS,
                    NOW_MS + 1000,
                ),
            ),
            (
                GLOBAL,
                (
                    "palyra.echo",
                    "global",
                    "",
                    "disabled",
                    "an incident",
                    "operator:grace",
                    0,
                    NOW_MS,
                    None,
                ),
            ),
        ],
    )
    def test_one_is_set_and_cleared(
        self,
        connection: apsw.Connection,
        in_force: Rules,
        setting: PostureSetting,
        row: tuple[object, ...],
    ) -> None:
        in_force.set_posture(set_posture(setting))
        assert (in_force.version, state(connection)["postures"]) == (2, [row])
        in_force.clear_posture(clear_posture(setting))
        assert (in_force.version, state(connection)["postures"]) == (3, [])

    def test_each_scope_has_its_own(self, connection: apsw.Connection, in_force: Rules) -> None:
        in_force.set_posture(set_posture(POSTURE))
        in_force.set_posture(set_posture(GLOBAL))
        in_force.set_posture(set_posture(change(POSTURE, scope_id="other")))
        assert len(state(connection)["postures"]) == 3

    def test_another_one_replaces_it(self, connection: apsw.Connection, in_force: Rules) -> None:
        in_force.set_posture(set_posture())
        other = change(POSTURE, state=Posture.ASK_EACH_TIME, expires_at_ms=None)
        in_force.set_posture(set_posture(other, before=POSTURE))
        ((*_, state_name, _, _, _, _, expires_at_ms),) = state(connection)["postures"]
        assert (in_force.version, state_name, expires_at_ms) == (3, "ask_each_time", None)

    @pytest.mark.parametrize("before", [None, *OTHERS])
    def test_what_it_was_decided_on_must_still_be_set(
        self, connection: apsw.Connection, in_force: Rules, before: PostureSetting | None
    ) -> None:
        in_force.set_posture(set_posture())
        wanted = set_posture(change(POSTURE, state=Posture.ALWAYS_ALLOW), before=before)
        refused = refusal(connection, lambda: in_force.set_posture(wanted))
        assert refused.code is Code.STATE_CONFLICT
        if before is not None:
            clearing = clear_posture(before)
            refused = refusal(connection, lambda: in_force.clear_posture(clearing))
            assert refused.code is Code.STATE_CONFLICT

    def test_what_it_was_decided_on_may_not_be_gone(
        self, connection: apsw.Connection, in_force: Rules
    ) -> None:
        wanted = set_posture(before=POSTURE)
        refused = refusal(connection, lambda: in_force.set_posture(wanted))
        assert refused.code is Code.STATE_CONFLICT

    def test_an_unknown_one_is_not_cleared(
        self, connection: apsw.Connection, in_force: Rules
    ) -> None:
        in_force.set_posture(set_posture(GLOBAL))
        refused = refusal(connection, lambda: in_force.clear_posture(clear_posture()))
        assert (refused.code, "palyra.echo" in refused.message) == (Code.POSTURE_UNKNOWN, True)

    @pytest.mark.parametrize("wanted", [set_posture(), clear_posture()], ids=["set", "clear"])
    def test_there_is_none_before_there_are_policies(
        self, connection: apsw.Connection, rules: Rules, wanted: SetPosture | ClearPosture
    ) -> None:
        def attempt() -> None:
            if isinstance(wanted, SetPosture):
                rules.set_posture(wanted)
            else:
                rules.clear_posture(wanted)

        assert refusal(connection, attempt).code is Code.STATE_CONFLICT

    @pytest.mark.invariant("I13")
    def test_their_number_is_bounded(
        self, connection: apsw.Connection, in_force: Rules, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rules_module, "MOST_POSTURES", 2)
        in_force.set_posture(set_posture(POSTURE))
        in_force.set_posture(set_posture(GLOBAL))
        more = set_posture(change(POSTURE, tool="palyra.fs.write"))
        refused = refusal(connection, lambda: in_force.set_posture(more))
        assert (refused.code, refused.message) == (
            Code.STATE_CONFLICT,
            "2 postures are set, and there can be no more",
        )
        in_force.set_posture(set_posture(OTHERS[0], before=POSTURE))  # in place of another
        in_force.clear_posture(clear_posture(GLOBAL))
        in_force.set_posture(more)
