# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import orjson
import pytest

from palyra.core.canonical import canonical_record, canonicalize
from palyra.core.capability import Capability
from palyra.core.digest import call_digest, plan_digest
from palyra.core.errors import Code, InputError, NotFoundError, StoreError
from palyra.core.execution import Executor
from palyra.core.facts import Facts, bounded
from palyra.core.ids import RequestId
from palyra.core.manifest import ToolManifest
from palyra.core.plan import SandboxPlan, Tier
from palyra.core.proposal import CallRequest, Malformed, Proposal
from palyra.core.session import Run
from palyra.core.workspace import Workspace
from palyra.flow.intake.receive import Parent, Plan, Receiver
from palyra.tools.basic import BASIC_TOOLS, ECHO
from palyra.tools.catalogue import Catalogue
from tests.support.samples import AGENT, CALL_ID, CREDENTIAL_ID, NOW_MS, RUN_ID, SESSION_ID
from tests.support.scripted import CountedIds, FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from palyra.core.manifest import Arguments

RUN = Run(
    run_id=RUN_ID,
    session_id=SESSION_ID,
    principal=AGENT,
    credential_id=CREDENTIAL_ID,
    opened_at_ms=NOW_MS,
)
WORK = Workspace(name="work", root="/work", device=1, inode=2)
PLAY = Workspace(name="play", root="/play", device=1, inode=3)
HI = b'{"text":"hi"}'
KEY = b"k" * 32


def manifest(name: str = "test.tool", **changes: Any) -> ToolManifest:  # noqa: ANN401 - its fields
    schema = {"type": "object", "properties": {}, "additionalProperties": True}
    plain: dict[str, Any] = {
        "version": "1.2.3",
        "description": "Do what a test needs.",
        "input_schema": schema,
        "output_schema": {},
        "executor": Executor.BUILTIN,
    }
    return ToolManifest(name=name, **(plain | changes))


class Shelf:
    """The workspaces there are, or the fault of asking."""

    def __init__(self, *workspaces: Workspace, fault: Exception | None = None) -> None:
        self._workspaces = workspaces
        self._fault = fault

    def workspaces(self) -> tuple[Workspace, ...]:
        if self._fault is not None:
            raise self._fault
        return self._workspaces


def receiver(
    *tools: ToolManifest,
    shelf: Shelf | None = None,
    commitment_key: bytes = KEY,
    channel: str = "embedded",
) -> Receiver:
    clock = FakeClock()
    return Receiver(
        catalogue=Catalogue((*BASIC_TOOLS, *tools)),
        store=shelf or Shelf(),  # type: ignore[arg-type]  # the one read that is needed
        clock=clock,
        ids=CountedIds(clock),
        max_depth=2,
        execution_timeout_ms=1000,
        commitment_key=commitment_key,
        channel=channel,
    )


def request(
    tool: str = "palyra.echo",
    raw: bytes | Mapping[str, object] = HI,
    **fields: Any,  # noqa: ANN401
) -> CallRequest:
    raw = raw if isinstance(raw, bytes) else orjson.dumps(raw)
    return CallRequest(tool=tool, raw_arguments=raw, run_id=RUN_ID, **fields)


def proposed(outcome: Proposal | Malformed) -> Proposal:
    assert isinstance(outcome, Proposal), outcome
    return outcome


def refused(outcome: Proposal | Malformed) -> tuple[Code, str]:
    assert isinstance(outcome, Malformed), outcome
    return outcome.code, outcome.path


@pytest.mark.invariant("I2")
def test_a_sound_request_becomes_a_proposal() -> None:
    proposal = proposed(
        receiver().receive(
            request(raw=b' { "text" : "\\u0068i" } ', request_id=RequestId("r-1")), run=RUN
        )
    )
    plan = Plan(
        executor=Executor.BUILTIN,
        timeout_ms=1000,
        max_output_bytes=ECHO.max_output_bytes,
        workspace=None,
        sandbox=SandboxPlan(),
    )
    assert proposal == Proposal(
        call_id=proposal.call_id,
        request_id=RequestId("r-1"),
        principal=AGENT,
        credential_id=CREDENTIAL_ID,
        session_id=SESSION_ID,
        run_id=RUN_ID,
        parent_call_id=None,
        depth=0,
        tool="palyra.echo",
        tool_version=ECHO.version,
        capabilities=(),
        is_sensitive=False,
        executor=Executor.BUILTIN,
        arguments=msgspec.Raw(HI),
        journaled_arguments=msgspec.Raw(HI),
        facts=Facts(),
        workspace=None,
        channel="embedded",
        plan=SandboxPlan(),
        call_digest=call_digest(tool="palyra.echo", version=ECHO.version, canonical_arguments=HI),
        plan_digest=plan_digest(canonical_record(plan)),
        timeout_ms=1000,
        proposed_at_ms=NOW_MS,
    )


@pytest.mark.invariant("I2")
def test_a_proposal_carries_what_policy_asks_about() -> None:
    tool = manifest(
        capabilities=frozenset({Capability.NETWORK, Capability.FILESYSTEM_READ}),
        extract_facts=lambda arguments: Facts(size_bytes=len(arguments["text"])),
    )
    proposal = proposed(receiver(tool).receive(request("test.tool", {"text": "abc"}), run=RUN))
    assert proposal.capabilities == ("filesystem_read", "network")
    assert proposal.is_sensitive
    assert proposal.facts == Facts(size_bytes=3)


@pytest.mark.parametrize(
    ("asked_ms", "given_ms"), [(None, 1000), (10, 10), (1000, 1000), (10**9, 1000), (0, 1), (-9, 1)]
)
def test_time_can_only_be_shortened(asked_ms: int | None, given_ms: int) -> None:
    proposal = proposed(receiver().receive(request(timeout_ms=asked_ms), run=RUN))
    assert proposal.timeout_ms == given_ms


@pytest.mark.invariant("I4")
def test_another_plan_has_another_digest_and_the_same_call_digest() -> None:
    shorter, longer = (
        proposed(receiver().receive(request(timeout_ms=each), run=RUN)) for each in (10, 20)
    )
    assert shorter.call_digest == longer.call_digest
    assert shorter.plan_digest != longer.plan_digest


@pytest.mark.invariant("I2")
@pytest.mark.parametrize(
    ("executor", "powers", "plan"),
    [
        pytest.param(Executor.BUILTIN, set(), SandboxPlan(), id="no-powers"),
        pytest.param(
            Executor.WORKSPACE, {Capability.FILESYSTEM_READ}, SandboxPlan(), id="reads-files"
        ),
        pytest.param(
            Executor.WORKSPACE,
            {Capability.FILESYSTEM_READ, Capability.FILESYSTEM_WRITE},
            SandboxPlan(writes=("work",)),
            id="writes-files",
        ),
        pytest.param(
            Executor.BUILTIN,
            {Capability.FILESYSTEM_WRITE},
            SandboxPlan(),
            id="writes-files-of-no-workspace",
        ),
        pytest.param(
            Executor.BUILTIN, {Capability.NETWORK}, SandboxPlan(egress=("*",)), id="network"
        ),
        pytest.param(
            Executor.BUILTIN, {Capability.SECRETS_READ}, SandboxPlan(secrets=("*",)), id="secrets"
        ),
        pytest.param(Executor.BUILTIN, {Capability.PROCESS_EXEC}, SandboxPlan(), id="processes"),
        pytest.param(
            Executor.WORKSPACE,
            set(Capability),
            SandboxPlan(egress=("*",), writes=("work",), secrets=("*",)),
            id="all-powers",
        ),
    ],
)
def test_a_plan_says_what_the_tool_declares(
    executor: Executor, powers: set[Capability], plan: SandboxPlan
) -> None:
    tool = manifest(executor=executor, capabilities=frozenset(powers))
    outcome = receiver(tool, shelf=Shelf(WORK)).receive(request("test.tool", b"{}"), run=RUN)
    proposal = proposed(outcome)
    assert proposal.plan == plan
    assert proposal.plan.tier is Tier.NONE
    whole = Plan(
        executor=executor,
        timeout_ms=1000,
        max_output_bytes=tool.max_output_bytes,
        workspace=proposal.workspace,
        sandbox=plan,
    )
    assert proposal.plan_digest == plan_digest(canonical_record(whole))


@pytest.mark.invariant("I4")
def test_another_confinement_is_another_plan() -> None:
    digests = set()
    for powers in (set(), {Capability.NETWORK}, {Capability.SECRETS_READ}):
        tool = manifest(capabilities=frozenset(powers))
        sent = request("test.tool", b"{}")
        digests.add(proposed(receiver(tool).receive(sent, run=RUN)).plan_digest)
    assert len(digests) == 3


def test_a_proposal_names_the_surface_that_it_came_by() -> None:
    one, other = (
        proposed(receiver(channel=each).receive(request(), run=RUN)) for each in ("http", "mcp")
    )
    assert (one.channel, other.channel) == ("http", "mcp")
    assert (one.call_digest, one.plan_digest) == (other.call_digest, other.plan_digest)


@pytest.mark.invariant("I11")
def test_secret_fields_are_journaled_as_commitments() -> None:
    tool = manifest(secret_fields=("/password",))
    raw = {"password": "hush", "user": "u"}
    proposals = [
        proposed(receiver(tool).receive(request("test.tool", raw), run=RUN)) for _ in range(2)
    ]
    assert bytes(proposals[0].arguments) == canonicalize(raw)
    kept = [orjson.loads(bytes(each.journaled_arguments)) for each in proposals]
    assert [each["user"] for each in kept] == ["u", "u"]
    assert all(list(each["password"]) == ["$commitment"] for each in kept)
    assert kept[0] == kept[1]


@pytest.mark.invariant("I11")
def test_a_digest_over_secrets_is_known_to_the_holder_of_the_key_alone() -> None:
    tool = manifest(secret_fields=("/pin",))

    def digest(pin: str, *, key: bytes = KEY) -> str:
        sent = request("test.tool", {"pin": pin, "text": "x" * 5000})
        return proposed(receiver(tool, commitment_key=key).receive(sent, run=RUN)).call_digest

    plain = canonicalize({"pin": "1234", "text": "x" * 5000})
    guess = call_digest(tool="test.tool", version=tool.version, canonical_arguments=plain)
    assert digest("1234") == digest("1234")
    assert len({guess, digest("1234"), digest("1235"), digest("1234", key=b"o" * 32)}) == 4


@pytest.mark.invariant("I11")
def test_a_digest_of_raw_bytes_is_known_to_the_holder_of_the_key_alone() -> None:
    raw = b'{"pin":"1234"'
    one, other = (
        receiver(commitment_key=key).receive(request(raw=raw), run=RUN) for key in (KEY, b"o" * 32)
    )
    guess = call_digest(tool="palyra.echo", version="malformed", canonical_arguments=raw)
    assert len({guess, one.call_digest, other.call_digest}) == 3


@pytest.mark.invariant("I11")
@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        pytest.param(
            b'{"creds":{"S3CRET-key":1}}',
            (Code.INPUT_INVALID, "/creds", "/creds: the value does not fit its schema"),
            id="an-unknown-name",
        ),
        pytest.param(
            b'{"creds":{"S3CRET-key":1,"S3CRET-key":2}}',
            (Code.INPUT_DUPLICATE_KEY, "", "an object names the same key twice"),
            id="a-name-twice",
        ),
    ],
)
def test_names_within_a_secret_are_not_told(raw: bytes, answer: tuple[Code, str, str]) -> None:
    creds = {"type": "object", "properties": {"user": {}}, "additionalProperties": False}
    schema = {"type": "object", "properties": {"creds": creds}}
    tool = manifest(secret_fields=("/creds",), input_schema=schema)
    outcome = receiver(tool).receive(request("test.tool", raw), run=RUN)
    assert isinstance(outcome, Malformed)
    assert (outcome.code, outcome.path, outcome.reason) == answer
    assert b"S3CRET" not in msgspec.json.encode(outcome)


@pytest.mark.invariant("I13")
def test_a_proposal_carries_bounded_facts() -> None:
    paths = tuple(f"{number}/{'x' * 2000}" for number in range(900))
    tool = manifest(extract_facts=lambda _: Facts(writes=paths, protected=paths))
    proposal = proposed(receiver(tool).receive(request("test.tool", b"{}"), run=RUN))
    assert proposal.facts == bounded(Facts(writes=paths, protected=paths))
    assert len(canonical_record(proposal.facts)) <= 16 * 1024


def test_a_nested_call_names_its_parent_and_is_one_deeper() -> None:
    above = Parent(call_id=CALL_ID, depth=1)
    proposal = proposed(receiver().receive(request(), run=RUN, parent=above))
    assert (proposal.parent_call_id, proposal.depth) == (CALL_ID, 2)


def test_a_call_nested_too_deep_is_refused() -> None:
    above = Parent(call_id=CALL_ID, depth=2)
    outcome = receiver().receive(request(), run=RUN, parent=above)
    assert refused(outcome) == (Code.DEPTH_EXCEEDED, "")
    assert isinstance(outcome, Malformed)
    assert (outcome.parent_call_id, outcome.depth) == (CALL_ID, 3)


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        pytest.param(request("palyra.ecco"), (Code.TOOL_UNKNOWN, "/tool"), id="near-miss"),
        pytest.param(request("zzz.zzz"), (Code.TOOL_UNKNOWN, "/tool"), id="nothing-like-it"),
        pytest.param(request("echo"), (Code.INPUT_INVALID, "/tool"), id="no-dotted-name"),
        pytest.param(request("palyra.echo\n"), (Code.INPUT_INVALID, "/tool"), id="newline"),
        pytest.param(request(raw=b"{"), (Code.INPUT_NOT_JSON, ""), id="not-json"),
        pytest.param(request(raw=b"[]"), (Code.INPUT_INVALID, ""), id="no-object"),
        pytest.param(request(raw=b"{}"), (Code.INPUT_INVALID, ""), id="a-field-is-missing"),
        pytest.param(
            request(raw={"text": 1}), (Code.INPUT_INVALID, "/text"), id="a-field-is-wrong"
        ),
        pytest.param(
            request(raw=b'{"text":"' + b"x" * 20_000 + b'"}'),
            (Code.INPUT_TOO_LARGE, ""),
            id="too-large",
        ),
        pytest.param(
            request("test.any", b'{"a":' * 17 + b"1" + b"}" * 17),
            (Code.INPUT_TOO_DEEP, ""),
            id="too-deep",
        ),
        pytest.param(
            request("test.any", b'{"a":1e20}'),
            (Code.INPUT_NUMBER, ""),
            id="a-float-that-canonical-json-spells-as-a-huge-integer",
        ),
        pytest.param(
            request(request_id=RequestId("")), (Code.INPUT_INVALID, "/request_id"), id="empty-id"
        ),
        pytest.param(
            request(request_id=RequestId("x" * 129)),
            (Code.INPUT_INVALID, "/request_id"),
            id="long-id",
        ),
    ],
)
def test_an_unsound_request_is_malformed(sent: CallRequest, answer: tuple[Code, str]) -> None:
    assert refused(receiver(manifest("test.any")).receive(sent, run=RUN)) == answer


def test_a_malformed_call_is_recognised_by_its_raw_bytes() -> None:
    one, same, other = (
        receiver().receive(request(raw=raw, request_id=RequestId("r")), run=RUN)
        for raw in (b"{", b"{", b"{{")
    )
    assert isinstance(one, Malformed)
    assert one.call_digest == same.call_digest != other.call_digest
    assert one.request_id == "r"
    assert (one.tool, one.tool_version) == ("palyra.echo", ECHO.version)


def test_what_cannot_be_named_is_not_repeated() -> None:
    outcome = receiver().receive(request("\ud800" * 9, request_id=RequestId("\n")), run=RUN)
    assert isinstance(outcome, Malformed)
    assert (outcome.tool, outcome.tool_version, outcome.request_id) == (
        "(not a tool name)",
        "",
        None,
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("palyra.ecco", "did you mean palyra.echo?"),
        ("zzz.zzz", "'palyra tools list' shows the catalogue"),
    ],
)
def test_a_near_name_is_suggested_and_never_taken(name: str, hint: str) -> None:
    outcome = receiver().receive(request(name), run=RUN)
    assert isinstance(outcome, Malformed)
    assert outcome.hint == hint


@pytest.mark.parametrize(
    ("workspaces", "named", "answer"),
    [
        pytest.param((WORK,), None, WORK, id="the-only-one"),
        pytest.param((WORK, PLAY), "play", PLAY, id="the-named-one"),
        pytest.param((WORK, PLAY), None, Code.WORKSPACE_AMBIGUOUS, id="one-of-two"),
        pytest.param((), None, Code.WORKSPACE_UNKNOWN, id="none"),
        pytest.param((WORK,), "/work", Code.WORKSPACE_UNKNOWN, id="a-path-is-no-name"),
        pytest.param((WORK,), "wor", Code.WORKSPACE_UNKNOWN, id="a-part-of-a-name"),
    ],
)
def test_only_a_registered_workspace_is_used(
    workspaces: tuple[Workspace, ...], named: str | None, answer: Workspace | Code
) -> None:
    tool = manifest(executor=Executor.WORKSPACE)
    raw = {"workspace": named} if named is not None else {}
    shelf = Shelf(*workspaces)
    outcome = receiver(tool, shelf=shelf).receive(request("test.tool", raw), run=RUN)
    if isinstance(answer, Workspace):
        assert proposed(outcome).workspace == answer
    else:
        assert refused(outcome) == (answer, "/workspace")


def _fails(error: Exception) -> Callable[[Arguments], Facts]:
    def extract(_: Arguments) -> Facts:
        raise error

    return extract


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    ("extract", "code"),
    [
        pytest.param(_fails(KeyError("x")), Code.GATE_FAULT, id="it-fails"),
        pytest.param(_fails(NotFoundError(Code.FS_NOT_FOUND)), Code.GATE_FAULT, id="of-ours"),
        pytest.param(_fails(InputError(Code.PATCH_MALFORMED)), Code.PATCH_MALFORMED, id="input"),
        pytest.param(lambda _: None, Code.GATE_FAULT, id="nothing"),
        pytest.param(
            lambda _: Facts(size_bytes=0.5),  # type: ignore[arg-type]  # the author's mistake
            Code.GATE_FAULT,
            id="a-fraction",
        ),
    ],
)
def test_facts_that_cannot_be_drawn_refuse_the_call(extract: Any, code: Code) -> None:  # noqa: ANN401
    tool = manifest(extract_facts=extract)
    outcome = receiver(tool).receive(request("test.tool", b"{}"), run=RUN)
    assert refused(outcome) == (code, "")


@pytest.mark.invariant("I1")
def test_a_schema_that_does_not_compile_refuses_the_call() -> None:
    tool = manifest(input_schema={"type": "object", "properties": {"a": {"type": "nonsense"}}})
    outcome = receiver(tool).receive(request("test.tool", b"{}"), run=RUN)
    assert refused(outcome) == (Code.TOOL_MANIFEST, "")


def test_a_store_that_fails_is_not_the_callers_mistake() -> None:
    tool = manifest(executor=Executor.WORKSPACE)
    shelf = Shelf(fault=StoreError(Code.STORE_BUSY))
    with pytest.raises(StoreError):
        receiver(tool, shelf=shelf).receive(request("test.tool", b"{}"), run=RUN)
