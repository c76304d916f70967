# SPDX-License-Identifier: Apache-2.0
"""Reads tests in the format of the public Cedar integration tests, and asks slices what they ask.

A test is a JSON file. It names ``policies``, ``entities`` and ``schema`` by paths from the root of
the corpus, and lists ``requests``, each with ``principal``, ``action``, ``resource``, ``context``
and the expected ``decision``, ``reason`` (who determined it) and ``errors`` (who failed).
``policyFormat`` and ``schemaFormat`` may be ``json``. ``validateRequest`` false means that the
request need not fit the schema; it is then put without one, so that what only the schema would
read as an address or a decimal stays text. Older spellings are read too: ``queries``, ``desc``,
``reasons``, ``should_validate``, uids as text or as ``{"__entity": ...}``, ``Allow`` for ``allow``,
messages that name a policy for its name.

The corpus calls policies by place (``policy0``), where ours need an ``@id``: it is set to that
name, whatever it was.

Our own corpus is ``tests/vectors/cedar``. To run another as well, such as a copy of
https://github.com/cedar-policy/cedar-integration-tests with its ``corpus-tests.tar.gz`` unpacked
in it::

    PALYRA_CEDAR_CORPUS=/path/to/corpus pytest tests/integration/test_cedar_corpus.py
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import cedarpy

from palyra.core.pack import Effect, Policy
from palyra.core.policy_request import EntityUid
from palyra.flow.policy.cedar import evaluate, failed_positions
from palyra.flow.policy.heads import head_keys, request_keys
from palyra.flow.policy.references import attributes_read
from palyra.flow.policy.slices import PolicyIndex, SliceCache

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_NAME: Final = re.compile(r"\bpolicy[0-9]+\b")
_FIELDS_OF_A_TEST: Final = frozenset({"policies", "entities", "schema"})


class CannotBeSlicedError(Exception):
    """The policies are deeper than the engine shows them, or are templates. We refuse both."""


class Outcome(NamedTuple):
    """What a request comes to, with policies by place."""

    allowed: bool
    reason: frozenset[str]
    errors: frozenset[str]


class CorpusRequest(NamedTuple):
    """One request of a test. A place is ``None`` where old Cedar left it unspecified."""

    description: str
    principal: EntityUid | None
    action: EntityUid | None
    resource: EntityUid | None
    context: dict[str, Any]
    is_validated: bool
    expected: Outcome

    @property
    def is_askable(self) -> bool:
        """Whether this Cedar still knows such requests."""
        return None not in {self.principal, self.action, self.resource}


class CorpusTest(NamedTuple):
    """One file of the corpus."""

    policies: str
    """Cedar text."""
    entities: str
    schema: cedarpy.Schema
    should_validate: bool
    requests: tuple[CorpusRequest, ...]

    def is_valid(self) -> bool:
        """Tell whether the policies fit the schema."""
        return cedarpy.validate_policies(self.policies, self.schema).validation_passed


def find_tests(root: Path) -> Iterator[Path]:
    """Yield the tests of the corpus, by path."""
    for path in sorted(root.rglob("*.json")):
        document = json.loads(path.read_text("utf-8"))
        if isinstance(document, dict) and document.keys() >= _FIELDS_OF_A_TEST:
            yield path


def read_test(root: Path, path: Path) -> CorpusTest:
    """Read the test at ``path``."""
    document = json.loads(path.read_text("utf-8"))
    policies, schema = (
        (root / document[name]).read_text("utf-8") for name in ("policies", "schema")
    )
    if document.get("policyFormat") == "json":
        policies = cedarpy.policies_from_json_str(policies)
    is_json = document.get("schemaFormat") == "json" or document["schema"].endswith(".json")
    return CorpusTest(
        policies=policies,
        entities=(root / document["entities"]).read_text("utf-8"),
        schema=(cedarpy.Schema.from_json_str if is_json else cedarpy.Schema.from_str)(schema),
        should_validate=document.get("shouldValidate", document.get("should_validate")),
        requests=tuple(
            _request(each) for each in document.get("requests", document.get("queries", ()))
        ),
    )


class SlicedPolicies:
    """The policies of a test, asked by way of slices."""

    def __init__(self, test: CorpusTest) -> None:
        self.policies: Final = tuple(_policies(test.policies))
        self._slices: Final = SliceCache(PolicyIndex(self.policies))
        self._schema: Final = test.schema
        self._entities: Final = cedarpy.Entities.from_json_str(test.entities, test.schema)
        self._ancestors: Final = _ancestors(self._entities)

    def ask(self, request: CorpusRequest) -> Outcome:
        """Return what the request comes to."""
        principal, action, resource = request.principal, request.action, request.resource
        if principal is None or action is None or resource is None:
            raise ValueError("this Cedar knows no unspecified entities")
        part = self._slices.find(self._keys(principal), self._keys(action), self._keys(resource))
        answer = evaluate(
            part.policy_set,
            self._entities,
            self._schema if request.is_validated else None,
            principal=principal,
            action=action,
            resource=resource,
            context_json=json.dumps(request.context),
        )
        if not answer.is_decided:
            raise ValueError(f"the request could not be put: {answer.errors}")
        failed = failed_positions(answer)
        if len(failed) != len(answer.errors):
            raise ValueError(f"these errors name no policy: {answer.errors}")
        return Outcome(
            allowed=answer.allowed,
            reason=frozenset(answer.policies),
            errors=frozenset(part.policies[place].policy_id for place in failed),
        )

    def _keys(self, uid: EntityUid) -> tuple[str, ...]:
        return request_keys(uid, self._ancestors.get(uid, ()))


def _policies(text: str) -> Iterator[Policy]:
    parsed = cedarpy.PolicySet.from_str(text)
    try:
        tree = parsed.to_pst()
    except ValueError as error:
        raise CannotBeSlicedError(str(error)) from error
    if tree.templates:
        raise CannotBeSlicedError("there are templates")
    for name, original in tree.static_policies.items():
        named = replace(original, annotations={**original.annotations, "id": name})
        only = cedarpy.pst.PolicySet(templates={}, static_policies={name: named}, template_links=())
        keys = head_keys(named)
        yield Policy(
            policy_id=name,
            effect=Effect(named.effect),
            source="corpus",
            line=1,
            text=str(cedarpy.PolicySet.from_pst(only)),
            principal=keys.principal,
            action=keys.action,
            resource=keys.resource,
            reads=attributes_read(named),
            annotations=dict(named.annotations),
        )


def _ancestors(entities: cedarpy.Entities) -> Mapping[EntityUid, tuple[EntityUid, ...]]:
    """Return what the engine makes of the entities: all that each is in, actions as well."""
    return {
        _specified(each["uid"]): tuple(map(_specified, each["parents"]))
        for each in json.loads(str(entities))
    }


def _request(fields: dict[str, Any]) -> CorpusRequest:
    principal, action, resource = (
        None if fields.get(place) is None else _specified(fields[place])
        for place in ("principal", "action", "resource")
    )
    return CorpusRequest(
        description=fields.get("description", fields.get("desc", "")),
        principal=principal,
        action=action,
        resource=resource,
        context=fields["context"],
        is_validated=fields.get("validateRequest", True),
        expected=Outcome(
            allowed=fields["decision"].lower() == "allow",
            reason=frozenset(fields.get("reason", fields.get("reasons", ()))),
            errors=frozenset(_NAME.findall(" ".join(fields["errors"]))),
        ),
    )


def _specified(uid: Any) -> EntityUid:  # noqa: ANN401 - whatever JSON holds
    if isinstance(uid, str):
        scope = f"permit (principal == {uid}, action, resource);"
        head = cedarpy.PolicySet.from_str(scope).to_pst().static_policies["policy0"].principal
        if not isinstance(head, cedarpy.pst.ScopeEq):
            raise TypeError(f"not a uid: {uid}")
        (found,) = cedarpy.pst.entity_uids(head)
        return EntityUid(str(found.type), found.id)
    fields = uid.get("__entity", uid)
    return EntityUid(fields["type"], fields["id"])
