# SPDX-License-Identifier: Apache-2.0
"""``palyra policy``: the policies in force. One module per command, imported when it is invoked."""

from __future__ import annotations

from palyra.cli.frame import LazyGroup, Noun

COMMANDS = {
    "activate": Noun(
        module="palyra.cli.policy_activate", summary="Put staged policies into force."
    ),
    "explain": Noun(
        module="palyra.cli.policy_explain", summary="Tell why a call is decided as it is."
    ),
    "preset": Noun(
        module="palyra.cli.policy_preset", summary="List the presets, or change to another."
    ),
    "replay": Noun(
        module="palyra.cli.policy_replay", summary="Decide past calls again by other policies."
    ),
    "show": Noun(module="palyra.cli.policy_show", summary="Show the policies in force."),
    "stage": Noun(
        module="palyra.cli.policy_stage", summary="Check policies and tell what they would change."
    ),
    "suggest": Noun(
        module="palyra.cli.policy_suggest", summary="Suggest policies from what was approved."
    ),
    "test": Noun(module="palyra.cli.policy_cases", summary="Run a table of expected decisions."),
    "validate": Noun(
        module="palyra.cli.policy_validate", summary="Check policies and list every fault."
    ),
}


class _Policy(LazyGroup):
    hides_options = True


command = _Policy(
    name="policy",
    nouns=COMMANDS,
    help=(
        "Show, check, change or explain the policies in force.\n\n"
        "Policies are written in Cedar, in files named *.cedar in the folder 'policies' of the "
        "state directory. A change of these files is not in force until it is staged and activated."
    ),
)
