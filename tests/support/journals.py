# SPDX-License-Identifier: Apache-2.0
"""A home with a journal of every kind of entry, copies of it, and ways to tamper with them."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw
import msgspec
import orjson

from palyra.core.approval import Rejection
from palyra.core.chain import GENESIS, leaf_hash, link_hash
from palyra.core.errors import Code, NotPermittedError
from palyra.core.pack import Members
from palyra.core.posture import Posture, PostureScope, PostureSetting
from palyra.core.proposal import CallRequest
from palyra.daemon.compose import Composition, compose
from palyra.daemon.local_identity import local_operator
from palyra.daemon.settings import BUILT_IN_TOOLS, Settings, ToolCallConfig
from palyra.flow.policy.presets import packaged_pack
from palyra.flow.sandbox.registration import inspect_folder
from palyra.flow.seal.signatures import PublicKey
from palyra.flow.seal.verify import Report, verify_journal
from palyra.store.sqlite.ledger import DATABASE_NAME, HEAD_NAME
from palyra.tools.function import tool
from palyra.tools.signature import ToolContext  # noqa: TC001 - read by @tool
from tests.support.append_only import lift, put_back
from tests.support.samples import AGENT, OPERATOR
from tests.support.scripted import CountedIds, FakeClock, ScriptedReviewer, approval_of
from tests.support.simulator import AGENT_CREDENTIAL, OPERATOR_CREDENTIAL
from tests.support.store import admit_under, open_archive, opening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palyra.core.principal import Credential
    from palyra.core.proposal import Proposal
    from palyra.trust.signing_key import SigningKey

PATCH = "--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-one\n+two\n"


@tool(name="test.fails")
def fails() -> None:
    """Fail."""
    raise ZeroDivisionError


@tool(name="test.nests")
async def nests(context: ToolContext) -> str:
    """Call another tool."""
    return str(await context.call("palyra.echo", {"text": "from within"}))


@tool(name="test.sensitive", sensitive=True)
def sensitive() -> str:
    """Need a human."""
    return "done"


@tool(name="test.unlisted")
def unlisted() -> str:
    """Be on no list."""
    return "never"


TOOLS = (fails, nests, sensitive, unlisted)
LISTED = tuple(each.manifest.name for each in TOOLS[:3])
SETTINGS = Settings(
    tool_call=ToolCallConfig(
        allowed_tools=(*BUILT_IN_TOOLS, *LISTED), max_calls_per_run=5, max_calls_per_session=40
    )
)


class _Process:
    """One process's life: calls one after the other, a few milliseconds apart."""

    def __init__(self, home: Path, clock: FakeClock, *, series: int) -> None:
        self.clock = clock
        self.reviewer = ScriptedReviewer()
        self.composition: Composition = compose(
            home,
            SETTINGS,
            tools=TOOLS,
            reviewer=self.reviewer,
            clock=clock,
            ids=CountedIds(clock, series=series),
        )

    async def run(self, credential: Credential = AGENT_CREDENTIAL) -> Any:  # noqa: ANN401
        self.clock.advance(3)
        return (await self.composition.gate.open_session(credential)).run_id

    async def call(
        self,
        run_id: Any,  # noqa: ANN401 - as run() returned it
        tool_name: str,
        arguments: dict[str, Any] | bytes,
        *,
        credential: Credential = AGENT_CREDENTIAL,
        wait: bool = True,
        **options: Any,  # noqa: ANN401 - fields of the request
    ) -> None:
        self.clock.advance(3)
        raw = arguments if isinstance(arguments, bytes) else orjson.dumps(arguments)
        request = CallRequest(tool=tool_name, raw_arguments=raw, run_id=run_id, **options)
        await self.composition.gate.submit(request, credential=credential, wait=wait)


def _reject(_: Proposal) -> Rejection:
    return Rejection(code=Code.APPROVAL_DENIED, reason="no", decided_by=OPERATOR)


async def build_home(home: Path, folder: Path) -> None:
    """Fill a new home with a journal of all kinds of entries, the result of two processes.

    ``folder`` is a workspace with a file ``notes.txt`` and a folder ``inner``.
    """
    clock = FakeClock()
    first = _Process(home, clock, series=1)
    ledger = first.composition.ledger
    await _use_workspaces(first, folder)
    run = await first.run()
    await first.call(run, "palyra.echo", {"text": "hi"}, request_id="r1")
    await first.call(run, "palyra.echo", {"text": "hi"}, request_id="r1")
    await asyncio.gather(
        *(first.call(run, "palyra.echo", {"text": f"t{number}"}) for number in range(4))
    )
    await first.call(run, "palyra.echo", {"text": "beyond the budget"})
    await first.composition.gate.scribe.flood_suppressed(AGENT, count=4)
    run = await first.run()
    await first.call(run, "palyra.echo", b'{"text": "a", "text": "b"}')
    await first.call(run, "palyra.unknown", {})
    await first.call(run, "test.unlisted", {})
    await first.call(run, "test.fails", {})
    await first.call(run, "palyra.sleep", {"duration_ms": 2000}, timeout_ms=1)
    run = await first.run()
    await first.call(run, "test.nests", {})
    first.reviewer.at_once = _reject
    await first.call(run, "test.sensitive", {})
    first.reviewer.at_once = approval_of
    await first.call(run, "test.sensitive", {})
    first.reviewer.at_once = None
    await first.call(run, "test.sensitive", {}, wait=False)
    # What a killed process would leave: a launch without an outcome, and no living owner.
    ledger.record_now(opening())
    ledger.record_now(admit_under(ledger.rules_in_force(), 1))
    await first.composition.close()

    second = _Process(home, clock, series=2)
    assert second.composition.recovered == 1
    await _change_rules(second)
    await second.call(await second.run(), "palyra.echo", {"text": "after a crash"})
    await second.composition.close()


async def _use_workspaces(process: _Process, folder: Path) -> None:
    operations, owner = process.composition.operations, local_operator()
    for name, root in (("site", folder), ("old", folder / "inner")):
        workspace = inspect_folder(root, name=name, state=process.composition.home, homes=())
        await operations.add_workspace(workspace, credential=owner)
    await operations.remove_workspace("old", credential=owner)
    run = await process.run(OPERATOR_CREDENTIAL)
    write = {"path": "new.txt", "content": "new"}
    await process.call(run, "palyra.fs.write", write, credential=OPERATOR_CREDENTIAL)
    patch = {"patch": PATCH}
    await process.call(run, "palyra.fs.apply_patch", patch, credential=OPERATOR_CREDENTIAL)


_KEEPERS = Members(roles={"keeper": ("agent:ada",)})


async def _change_rules(process: _Process) -> None:
    """Activate other policies and set postures, so that both are there, replaced and removed."""
    operations, owner = process.composition.operations, local_operator()
    boxed = packaged_pack("boxed")
    for pack in (boxed, msgspec.structs.replace(boxed, members=_KEEPERS)):
        await operations.stage_pack(pack, credential=owner)
    await operations.activate_pack(boxed.digest, credential=owner, reason="to try them")
    asks = PostureSetting(
        tool="palyra.sleep",
        scope=PostureScope.GLOBAL,
        scope_id="",
        state=Posture.ASK_EACH_TIME,
        reason="it is slow",
        set_by=owner.principal,
        by_administrator=True,
        set_at_ms=process.clock.now_ms(),
        expires_at_ms=process.clock.now_ms() + 1_000_000,
    )
    disabled = msgspec.structs.replace(asks, state=Posture.DISABLED, expires_at_ms=None)
    for_ada = msgspec.structs.replace(disabled, scope=PostureScope.AGENT, scope_id=AGENT.name)
    for setting in (asks, for_ada, disabled, msgspec.structs.replace(asks, tool="test.fails")):
        await operations.set_posture(setting, credential=owner)
    with suppress(NotPermittedError):
        await operations.set_posture(asks, credential=AGENT_CREDENTIAL)
    await operations.clear_posture(
        for_ada.tool, for_ada.scope, for_ada.scope_id, credential=owner, reason="no longer needed"
    )


class RememberingKey(PublicKey):
    """A public key that checks the same signature once: copies share nearly all of them."""

    def __init__(self, raw: bytes) -> None:
        super().__init__(raw)
        self._known: dict[tuple[bytes, str], bool] = {}

    def signed(self, message: bytes, signature: str) -> bool:
        known = self._known.get((message, signature))
        if known is None:
            known = self._known[message, signature] = super().signed(message, signature)
        return known


class Row(NamedTuple):
    """One entry, as the database holds it."""

    seq: int
    recorded_at_ms: int
    kind: str
    subject: str
    body: bytes
    link: bytes
    head: bytes | None


def make_home(at: Path) -> Path:
    """Build a home below ``at`` and return where it is."""
    folder = at / "site"
    (folder / "inner").mkdir(parents=True)
    (folder / "notes.txt").write_text("one\n")
    asyncio.run(build_home(at / "home", folder))
    return at / "home"


def rows_of(connection: apsw.Connection) -> list[Row]:
    rows: list[Any] = connection.execute("SELECT * FROM journal ORDER BY seq").fetchall()
    return [Row(*row) for row in rows]


def _rows_in(home: Path) -> tuple[Row, ...]:
    connection = apsw.Connection(str(home / DATABASE_NAME))
    rows = tuple(rows_of(connection))
    connection.close()
    return rows


@dataclass(frozen=True, kw_only=True)
class Original:
    """A home in one small file, to be copied and tampered with."""

    home: Path
    rows: tuple[Row, ...]
    key: PublicKey

    @classmethod
    def of(cls, home: Path, *, at: Path) -> Original:
        """Take a compact copy of the home that was built at ``home``."""
        at.mkdir()
        connection = apsw.Connection(str(home / DATABASE_NAME))
        connection.execute("VACUUM INTO ?", (str(at / DATABASE_NAME),))
        connection.close()
        shutil.copy(home / HEAD_NAME, at)
        pem = (home / "keys" / "journal.pub").read_bytes()
        return cls(home=at, rows=_rows_in(at), key=RememberingKey.from_pem(pem))

    @classmethod
    def of_home(cls, home: Path, key: SigningKey) -> Original:
        """Take a home as it is, with the key that its ledger was opened with."""
        return cls(home=home, rows=_rows_in(home), key=RememberingKey(key.public_key))

    def copy_to(self, at: Path) -> None:
        """Copy the home, nothing else."""
        shutil.copytree(self.home, at)

    @property
    def last(self) -> int:
        return self.rows[-1].seq

    def row(self, seq: int) -> Row:
        return self.rows[seq - 1]

    def commit_of(self, seq: int) -> range:
        """Return the entries that were committed together with this one."""
        ends = [0, *(row.seq for row in self.rows if row.head is not None)]
        after = next(end for end in ends if end >= seq)
        return range(ends[ends.index(after) - 1] + 1, after + 1)

    @contextmanager
    def tampered(self, at: Path) -> Iterator[Copy]:
        """Yield a copy that may be written, then remove it."""
        shutil.rmtree(at, ignore_errors=True)
        shutil.copytree(self.home, at)
        connection = apsw.Connection(str(at / DATABASE_NAME))
        connection.pragma("synchronous", "off")
        lift(connection)
        connection.execute("BEGIN")
        try:
            yield Copy(home=at, connection=connection, key=self.key)
        finally:
            connection.close()


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A copy under attack."""

    home: Path
    connection: apsw.Connection
    key: PublicKey

    def do(self, sql: str, *bindings: Any) -> None:  # noqa: ANN401 - whatever SQLite takes
        self.connection.execute(sql, bindings)

    def insert(self, row: Row) -> None:
        self.do("INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?)", *row)

    def put(self, row: Row) -> None:
        """Replace the entry at the row's index."""
        self.do("DELETE FROM journal WHERE seq = ?", row.seq)
        self.insert(row)

    def relink(self, *, first: int) -> None:
        """Recompute all links from an entry on, as whoever has no key still can."""
        previous = GENESIS
        for row in rows_of(self.connection):
            linked = row
            if row.seq >= first:
                leaf = leaf_hash(
                    index=row.seq,
                    recorded_at_ms=row.recorded_at_ms,
                    kind=row.kind,
                    subject=row.subject,
                    body=row.body,
                )
                linked = row._replace(link=link_hash(previous=previous, leaf=leaf))
                self.put(linked)
            previous = linked.link

    def verify(self, *, pinned: bool = True) -> Report:
        """End the tampering, cover the tracks, and return what a verifier finds."""
        if self.connection.in_transaction:
            self.connection.execute("COMMIT")
        put_back(self.connection)
        try:
            return verify_home(self.home, key=self.key if pinned else None)
        finally:
            lift(self.connection)


def verify_home(home: Path, *, key: PublicKey | None = None) -> Report:
    """Return what a verifier finds in the journal of a home."""
    archive = open_archive(home)
    try:
        return verify_journal(archive, expected_key=key)
    finally:
        archive.close()
