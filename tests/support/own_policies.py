# SPDX-License-Identifier: Apache-2.0
"""An operator's policies in the home of a test, and what the command line makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_line import CommandLine

WAIVER = """// Demo keeps notes.
@id("mine.demo-writes")
@reason("demo writes notes")
permit (
  principal == Agent::"demo",
  action == Action::"approval.waive",
  resource == Tool::"palyra.fs.write"
);
"""
NO_ECHO = """@id("mine.no-echo")
@reason("echo is out of fashion")
forbid (principal is Agent, action == Action::"tool.execute", resource == Tool::"palyra.echo");
"""
EXAMPLES = """[[case]]
name = "demo writes"
principal = "agent:demo"
resource = "tool:palyra.fs.write"
applies = ["mine.demo-writes"]

[[case]]
name = "others do not"
principal = "agent:eve"
resource = "tool:palyra.fs.write"
does_not_apply = ["mine.demo-writes"]
"""


def write_policies(folder: Path, **files: str) -> Path:
    """Write files named with ``__`` for the dot, into a folder that nobody else can write to."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    for name, text in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
    return folder


def own_policies(palyra: CommandLine, **files: str) -> Path:
    """Write files into the home's own folder of policies."""
    if not palyra.home.exists():
        assert palyra("call", "palyra.echo", '{"text":"x"}').status == 0
    return write_policies(palyra.home / "policies", **files)


def activate(palyra: CommandLine, **files: str) -> str:
    """Put policies into force and return their digest."""
    own_policies(palyra, **files)
    digest = str(palyra.json("policy", "stage").document["policy_digest"])
    assert palyra("policy", "activate", digest).status == 0
    return digest


def called(palyra: CommandLine, *arguments: str) -> str:
    """Propose a call and return its id, whatever came of it."""
    document = palyra.json("call", *arguments).document
    return str(document.get("call_id") or document["error"]["details"]["call_id"])
