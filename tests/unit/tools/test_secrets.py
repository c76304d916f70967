# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypedDict

import msgspec
import pytest

from palyra.tools.secrets import Secret, secret_pointers

SecretText = Annotated[str, Secret()]


class Login(msgspec.Struct):
    user: str
    password: SecretText


class Renamed(msgspec.Struct, rename={"password": "a/b~c"}):
    password: SecretText


class InOrder(msgspec.Struct, array_like=True):
    user: str
    password: SecretText


class Tagged(msgspec.Struct, array_like=True, tag="login"):
    user: str
    password: SecretText


class TaggedByZero(msgspec.Struct, array_like=True, tag=0):
    password: SecretText


@dataclass
class Account:
    login: Login


class Session(TypedDict):
    token: SecretText


class Pair(NamedTuple):
    name: str
    secret: SecretText


class Chain(msgspec.Struct):
    key: SecretText
    rest: Chain | None = None


class Tree(msgspec.Struct):
    name: str
    branches: list[Tree] = []


@pytest.mark.parametrize(
    ("hint", "pointers"),
    [
        (str, ()),
        (Any, ()),
        (SecretText, ("/x",)),
        (Annotated[int, msgspec.Meta(ge=0)], ()),
        (Annotated[str, msgspec.Meta(max_length=9), Secret()], ("/x",)),
        (SecretText | None, ("/x",)),
        (Annotated[list[SecretText], msgspec.Meta(extra_json_schema={"title": "t"})], ("/x/*",)),
        (list[SecretText], ("/x/*",)),
        (set[SecretText], ("/x/*",)),
        (frozenset[SecretText], ("/x/*",)),
        (tuple[SecretText, ...], ("/x/*",)),
        (tuple[int, SecretText], ("/x/1",)),
        (dict[str, SecretText], ("/x/*",)),
        (dict[SecretText, int], ("/x",)),
        (Login, ("/x/password",)),
        (Annotated[Login, Secret()], ("/x",)),
        (list[Login], ("/x/*/password",)),
        (Renamed, ("/x/a~1b~0c",)),
        (InOrder, ("/x/1",)),
        (Tagged, ("/x/2",)),
        (TaggedByZero, ("/x/1",)),
        (Account, ("/x/login/password",)),
        (Session, ("/x/token",)),
        (Pair, ("/x/1",)),
        (tuple[Login, Login], ("/x/0/password", "/x/1/password")),
        (dict[str, Login] | list[Login], ("/x/*/password",)),
        (Tree, ()),
    ],
    ids=str,
)
def test_pointers_lead_to_every_secret(hint: object, pointers: tuple[str, ...]) -> None:
    assert sorted(secret_pointers(hint, at="/x")) == sorted(pointers)


def test_secret_in_a_type_that_contains_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="its type contains itself"):
        secret_pointers(Chain, at="/x")


def test_secret_is_marked_in_the_schema() -> None:
    assert msgspec.json.schema(SecretText) == {"type": "string", "writeOnly": True}
