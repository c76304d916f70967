# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from palyra.core.errors import Code
from palyra.flow.policy.sources import Fault, Source, printable


def test_a_fault_reads_like_a_compiler_s() -> None:
    fault = Fault(source="rules.cedar", line=12, column=7, message="unexpected token `)`")
    assert str(fault) == "rules.cedar:12:7: unexpected token `)`"
    assert fault.code is Code.POLICY_INVALID


def test_a_fault_without_a_place_names_only_its_source_and_keeps_its_hint() -> None:
    assert str(Fault(source="rules.cedar", message="no", hint="yes?")) == "rules.cedar: no; yes?"


def test_only_names_below_palyra_are_packaged() -> None:
    assert Source("palyra/base.cedar", "").is_packaged
    assert not Source("palyra.cedar", "").is_packaged
    assert not Source("rules/palyra/base.cedar", "").is_packaged


def test_what_is_shown_is_bounded_and_hides_nothing() -> None:
    assert printable("a\x1b[2J\u202eb") == "a\\u{1b}[2J\\u{202e}b"
    assert len(printable("a" * 100_000)) < 500
