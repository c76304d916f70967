# SPDX-License-Identifier: Apache-2.0
"""``palyra policy test``: a table of expected decisions in, what came out otherwise out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from palyra.cli.callers_file import read_file
from palyra.cli.frame import Command, Frame
from palyra.cli.neutralise import line, well_formed
from palyra.cli.opening import loaded_settings, opened_rules
from palyra.cli.output import Reply
from palyra.cli.policy_question import Circumstances, circumstances
from palyra.cli.policy_reading import content_in, rules_in_force, short
from palyra.cli.policy_text import counted
from palyra.cli.policy_validate import checked_content, faults_reply
from palyra.core.errors import InputError
from palyra.surfaces.status import Exit

if TYPE_CHECKING:
    from palyra.flow.policy.cases import Case
    from palyra.flow.policy.examples import Outcome
    from palyra.flow.policy.rules import Rules


@click.command("test", cls=Command)
@click.argument("file")
@click.option("--policies", metavar="DIR", help="Test these policies, not those in force.")
@click.pass_obj
def command(frame: Frame, *, file: str, policies: str | None) -> Reply:
    """Run the table of cases FILE, and tell which come out otherwise than expected.

    The cases are put to the policies in force, or to those of DIR on top of the preset in force;
    what a case does not say is as the configuration, the catalogue and the postures have it.
    """
    from palyra.daemon.staging import InvalidPoliciesError
    from palyra.flow.policy.cases import read_cases
    from palyra.flow.policy.examples import run_cases

    read = read_cases(read_file(file), well_formed(file))
    if read.faults:
        wrong = InvalidPoliciesError(read.faults)
        wrong.hint = "correct the table of cases"
        return faults_reply(wrong)
    settings = loaded_settings(frame).settings
    with opened_rules(frame) as store:
        rules = rules_in_force(store)
        here = circumstances(settings, store)
    if policies is not None:
        try:
            rules = _other_rules(frame, policies, preset=rules.pack.preset)
        except InputError as error:
            return faults_reply(error)
    unknown = _unknown_tools(read.cases, here)
    for tool in unknown:
        frame.output.note(f"palyra: {line(tool)} is no built-in tool, and a case does not say")
        frame.output.note("  what it can do; it is taken to be able to do nothing")
    outcomes = run_cases(rules, [here.of(case) for case in read.cases], assumed=here.assumed)
    return _reply(outcomes, rules, unknown)


def _other_rules(frame: Frame, folder: str, *, preset: str) -> Rules:
    from palyra.flow.policy.rules import Rules

    return Rules(checked_content(frame, content_in(folder), preset=preset).pack)


def _unknown_tools(cases: tuple[Case, ...], here: Circumstances) -> list[str]:
    return sorted(
        {
            case.resource.id
            for case in cases
            if case.resource.type == "Tool"
            and "capabilities" not in case.context
            and here.catalogue.find(case.resource.id) is None
        }
    )


def _reply(outcomes: tuple[Outcome, ...], rules: Rules, unknown: list[str]) -> Reply:
    failed = [outcome for outcome in outcomes if not outcome.ok]
    digest = short(rules.policy_digest)
    cases = counted(len(outcomes), "case", "cases")
    if failed:
        lines = [f"{len(failed)} of {cases} came out otherwise, by policies {digest}"]
        lines += [f"  {line(str(each.case))}: {line(each.differed)}" for each in failed]
    else:
        lines = [f"ok, {cases}, by policies {digest}"]
    return Reply(
        document={
            "ok": not failed,
            "policy_digest": rules.policy_digest,
            "cases": len(outcomes),
            "unknown_tools": unknown,
            "failed": [
                {
                    "case": each.case.name,
                    "number": each.case.number,
                    "differed": each.differed,
                    "verdict": each.judgement.verdict.wire,
                    "code": each.judgement.code,
                    "reason": each.judgement.reason,
                    "policies": each.judgement.policies,
                }
                for each in failed
            ],
        },
        text=("\n".join(lines),),
        status=Exit.PROBLEM_FOUND if failed else Exit.DONE,
        tone="bad" if failed else "good",
    )
