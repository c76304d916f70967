# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from palyra.core.errors import Code, InputError
from palyra.core.principal import Assurance, Credential, Principal, PrincipalKind
from tests.support.samples import AGENT, CREDENTIAL_ID


@pytest.mark.parametrize("name", ["a", "ada", "ada.lovelace@example.org", "A_1-2", "x" * 64])
def test_names(name: str) -> None:
    assert Principal(kind=PrincipalKind.AGENT, name=name).name == name


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", id="empty"),
        pytest.param("x" * 65, id="long"),
        pytest.param(".hidden", id="a-leading-dot"),
        pytest.param("-flag", id="a-leading-dash"),
        pytest.param("a b", id="a-space"),
        pytest.param("a\n", id="a-newline"),
        pytest.param("operator:ada", id="a-colon"),
        pytest.param("../ada", id="a-path"),
        pytest.param("\u0430da", id="a-look-alike"),
        pytest.param("ada\u202e", id="bidi"),
    ],
)
@pytest.mark.parametrize("kind", PrincipalKind)
def test_other_names_are_refused_without_an_echo(kind: PrincipalKind, name: str) -> None:
    with pytest.raises(InputError) as caught:
        Principal(kind=kind, name=name)
    assert caught.value.code is Code.PRINCIPAL_INVALID
    assert caught.value.message == f"{kind} name is not 1 to 64 letters, digits or . _ @ -"


def test_text_form_names_the_kind() -> None:
    assert str(AGENT) == "agent:ada"


@pytest.mark.invariant("I6")
def test_same_name_of_another_kind_is_another_principal() -> None:
    assert Principal(kind=PrincipalKind.OPERATOR, name="ada") != AGENT


def test_decoding_checks_the_name_too() -> None:
    with pytest.raises(InputError):
        msgspec.json.decode(b'{"kind":"agent","name":"a b"}', type=Principal)


def test_credential_cannot_be_changed() -> None:
    credential = Credential(
        credential_id=CREDENTIAL_ID, principal=AGENT, assurance=Assurance.DEVELOPER
    )
    with pytest.raises(AttributeError):
        credential.assurance = Assurance.SEPARATED  # type: ignore[misc]
