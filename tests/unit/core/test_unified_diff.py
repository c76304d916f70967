# SPDX-License-Identifier: Apache-2.0
import contextlib
import difflib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palyra.core.errors import Code, ToolError
from palyra.core.unified_diff import MAX_FILES, FilePatch, Hunk, apply, parse


def change(path: str, *lines: str, header: str = "@@ -1 +1 @@") -> str:
    return "\n".join([f"--- a/{path}", f"+++ b/{path}", header, *lines, ""])


def refused(patch: str) -> tuple[Code, str]:
    with pytest.raises(ToolError) as caught:
        parse(patch)
    return caught.value.code, caught.value.message


def test_a_modification_is_parsed() -> None:
    patch = "diff --git a/x.txt b/x.txt\nindex 1..2 100644\n" + change("x.txt", "-one", "+two")
    assert parse(patch) == (
        FilePatch(
            path_before="x.txt",
            path_after="x.txt",
            hunks=(Hunk(start=0, before=("one\n",), after=("two\n",)),),
        ),
    )


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param(
            "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+hi\n",
            FilePatch(
                path_before=None,
                path_after="new",
                hunks=(Hunk(start=0, before=(), after=("hi\n",)),),
            ),
            id="an-addition-comes-from-dev-null",
        ),
        pytest.param(
            "--- a/old\t2026-01-01\n+++ /dev/null\t1970-01-01\n@@ -1 +0,0 @@\n-hi\n",
            FilePatch(
                path_before="old",
                path_after=None,
                hunks=(Hunk(start=0, before=("hi\n",), after=()),),
            ),
            id="a-deletion-goes-to-dev-null-and-time-stamps-are-dropped",
        ),
        pytest.param(
            "diff --git a/e b/e\nnew file mode 100755\nindex 000..e69\n",
            FilePatch(path_before=None, path_after="e", hunks=(), mode=0o755),
            id="an-empty-executable-is-added",
        ),
        pytest.param(
            "diff --git a/e b/e\ndeleted file mode 100644\nindex e69..000\n",
            FilePatch(path_before="e", path_after=None, hunks=()),
            id="an-empty-file-is-deleted",
        ),
        pytest.param(
            "diff --git a/e b/e\nold mode 100644\nnew mode 100755\n",
            FilePatch(path_before="e", path_after="e", hunks=(), mode=0o755),
            id="a-mode-alone-changes",
        ),
        pytest.param(
            "diff --git a/p q b/r\nsimilarity index 100%\nrename from p q\nrename to r\n",
            FilePatch(path_before="p q", path_after="r", hunks=()),
            id="a-rename-without-hunks",
        ),
        pytest.param(
            "diff --git a/p b/r\nsimilarity index 90%\nrename from p\nrename to r\n"
            "--- a/p\n+++ b/r\n@@ -1 +1 @@\n-a\n+b\n",
            FilePatch(
                path_before="p",
                path_after="r",
                hunks=(Hunk(start=0, before=("a\n",), after=("b\n",)),),
            ),
            id="a-rename-with-hunks",
        ),
        pytest.param(
            '--- "a/caf\\303\\251\\t\\"x"\n+++ "b/caf\\303\\251\\t\\"x"\n@@ -1 +1 @@\n-a\n+b\n',
            FilePatch(
                path_before='caf\u00e9\t"x',
                path_after='caf\u00e9\t"x',
                hunks=(Hunk(start=0, before=("a\n",), after=("b\n",)),),
            ),
            id="quoted-names-are-unquoted",
        ),
        pytest.param(
            'diff --git "a/\\303\\251" "b/\\303\\251"\nnew file mode 100644\n',
            FilePatch(path_before=None, path_after="\u00e9", hunks=(), mode=0o644),
            id="quoted-names-in-the-git-header",
        ),
        pytest.param(
            "--- src/x\n+++ src/x\n@@ -3,0 +4 @@\n+b\n",
            FilePatch(
                path_before="src/x",
                path_after="src/x",
                hunks=(Hunk(start=3, before=(), after=("b\n",)),),
            ),
            id="names-without-prefixes-stay-as-they-are",
        ),
        pytest.param(
            "--- a/x\n+++ a/x\n@@ -1 +1 @@\n-a\n+b\n",
            FilePatch(
                path_before="a/x",
                path_after="a/x",
                hunks=(Hunk(start=0, before=("a\n",), after=("b\n",)),),
            ),
            id="prefixes-are-stripped-from-both-names-or-neither",
        ),
    ],
)
def test_parses(patch: str, expected: FilePatch) -> None:
    assert parse(patch) == (expected,)


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        pytest.param("", "line 1: no file header", id="nothing"),
        pytest.param("\n\n", "line 2: no file header", id="blank-lines"),
        pytest.param("hello\n", "line 1: expected a file header", id="prose"),
        pytest.param("--- a/x\n@@ -1 +1 @@\n", "line 2: expected a '+++' line", id="half-a-header"),
        pytest.param("--- a/x\n+++ b/x\n", "line 2: a file header without a hunk", id="no-hunk"),
        pytest.param(change("x", "-a", header="@@ -1 @@"), "not a hunk header", id="odd-hunk"),
        pytest.param(change("x", "-a"), "line 4: the patch ends within a hunk", id="short-hunk"),
        pytest.param(change("x", "-a", "-b"), "more lines than its header", id="long-hunk"),
        pytest.param(
            change("x", "-a", "+b", "+c"), "line 6: expected a file header", id="text-after-hunk"
        ),
        pytest.param(change("x", "*a", "+b"), "begins with none of", id="unknown-mark"),
        pytest.param(
            change("x", "-a", "+b", header="@@ -0 +0 @@"), "begins at line 0", id="line-zero"
        ),
        pytest.param(
            change("x", "-a", "+b", "@@ -1 +1 @@", "-a", "+b"),
            "begins before the end",
            id="overlapping-hunks",
        ),
        pytest.param(
            "--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "nothing says rename", id="two-names"
        ),
        pytest.param(
            "--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+a\n", "nowhere", id="nowhere-twice"
        ),
        pytest.param(
            "--- /dev/null\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
            "an added file has content before",
            id="addition-with-a-past",
        ),
        pytest.param(
            "--- a/x\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n",
            "a deleted file has content after",
            id="deletion-with-a-future",
        ),
        pytest.param(
            "diff --git a/x b/x\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
            "contradicts the git header",
            id="git-header-names-another-file",
        ),
        pytest.param(
            "diff --git a/x b/yy\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
            "git header's names differ",
            id="git-header-names-two-files",
        ),
        pytest.param(
            "diff --git a/x b/x\nnew file mode 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
            "contradicts the mode header",
            id="new-file-that-was-there",
        ),
        pytest.param(
            "diff --git a/x b/y\nrename from x\nrename to y\n"
            "--- a/x\n+++ b/z\n@@ -1 +1 @@\n-a\n+b\n",
            "contradicts the rename",
            id="rename-to-somewhere-else",
        ),
        pytest.param(
            "diff --git a/x b/x\nrename from x\nrename to x\n",
            "contradicts the rename",
            id="rename-to-itself",
        ),
        pytest.param("diff --git a/x b/x\nindex 1..2\n", "expected a file header", id="no-effect"),
        pytest.param("--- a/x\r\n+++ b/x\r\n", "carriage return", id="crlf-header"),
        pytest.param("--- \n+++ b/x\n", "an empty path", id="empty-path"),
        pytest.param('--- "a/x\n+++ b/x\n', "has no end", id="open-quote"),
        pytest.param('--- "a/\\q"\n+++ b/x\n', "unknown escape", id="unknown-escape"),
        pytest.param('--- "a/\\377"\n+++ b/x\n', "not UTF-8", id="quoted-garbage"),
        pytest.param('--- "a/x" y\n+++ b/x\n', "text after a quoted path", id="text-after-quote"),
        pytest.param(
            'diff --git a/x b/y\nrename from "x" y\n', "not one path", id="rename-from-two-names"
        ),
        pytest.param(
            change(
                "x",
                "-a",
                "+b",
                "\\ No newline at end of file",
                "+c",
                header="@@ -1 +1,2 @@",
            ),
            "without its line end is not the last",
            id="missing-line-end-in-the-middle",
        ),
    ],
)
def test_refuses_what_is_malformed(patch: str, why: str) -> None:
    code, message = refused(patch)
    assert code is Code.PATCH_MALFORMED
    assert why in message


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param("diff --git a/x b/x\nnew file mode 120000\n", id="symbolic-link"),
        pytest.param("diff --git a/x b/x\nnew file mode 160000\n", id="submodule"),
        pytest.param("diff --git a/x b/x\nold mode 100644\nnew mode 104755\n", id="setuid"),
        pytest.param("diff --git a/x b/x\nold mode 100600\nnew mode 100644\n", id="odd-old-mode"),
        pytest.param("diff --git a/x b/x\ndeleted file mode 120000\n", id="deleted-link"),
        pytest.param(
            "diff --git a/x b/x\nindex 1..2 120000\n" + change("x", "-a", "+b"),
            id="a-changed-link-shows-only-in-the-index-line",
        ),
        pytest.param("diff --git a/x b/y\ncopy from x\ncopy to y\n", id="copy"),
        pytest.param("diff --git a/x b/x\nindex 1..2\nGIT binary patch\n", id="binary-patch"),
        pytest.param(
            "diff --git a/x b/x\nBinary files a/x and b/x differ\n", id="binary-difference"
        ),
        pytest.param(change("x", "-a", "+b") + change("x", "-b", "+c"), id="same-path-twice"),
        pytest.param(
            change("x", "-a", "+b") + "diff --git a/y b/x\nrename from y\nrename to x\n",
            id="rename-onto-a-changed-path",
        ),
        pytest.param(
            "".join(
                f"diff --git a/{n} b/{n}\nnew file mode 100644\n" for n in range(MAX_FILES + 1)
            ),
            id="too-many-files",
        ),
    ],
)
def test_refuses_what_is_unsupported(patch: str) -> None:
    code, _ = refused(patch)
    assert code is Code.PATCH_UNSUPPORTED


def test_applies_several_hunks_where_they_say() -> None:
    (file,) = parse(
        "--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n 1\n-2\n"
        "@@ -5,0 +5,2 @@ def f():\n+5a\n+5b\n@@ -6 +8 @@\n-6\n+six\n"
    )
    assert apply(file, "1\n2\n3\n4\n5\n6\n") == "1\n3\n4\n5\n5a\n5b\nsix\n"


def test_an_empty_line_in_a_hunk_is_an_empty_context_line() -> None:
    (file,) = parse("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n-a\n+b\n\n c\n")
    assert apply(file, "a\n\nc\n") == "b\n\nc\n"


@pytest.mark.parametrize(
    ("lines", "before", "after"),
    [
        pytest.param(
            ["-a", "\\ No newline at end of file", "+a"], "a", "a\n", id="a-line-end-is-added"
        ),
        pytest.param(
            ["-a", "+a", "\\ No newline at end of file"], "a\n", "a", id="a-line-end-is-removed"
        ),
        pytest.param(
            ["-a", "+b", " c", "\\ No newline at end of file"],
            "a\nc",
            "b\nc",
            id="it-stays-missing",
        ),
    ],
)
def test_missing_line_ends(lines: list[str], before: str, after: str) -> None:
    header = "@@ -1,2 +1,2 @@" if " c" in lines else "@@ -1 +1 @@"
    (file,) = parse(change("x", *lines, header=header))
    assert apply(file, before) == after


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        pytest.param(change("x", "-secret", "+b"), "other\n", id="other-line"),
        pytest.param(change("x", "-secret", "+b"), "secret", id="line-without-its-end"),
        pytest.param(change("x", "-secret", "+b"), "secret \n", id="no-fuzz-about-blanks"),
        pytest.param(change("x", "-secret", "+b"), "0\nsecret\n", id="no-search-elsewhere"),
        pytest.param(
            change("x", "+b", header="@@ -7,0 +8 @@"), "secret\n", id="beyond-the-end-of-the-file"
        ),
        pytest.param(
            change("x", "+b", header="@@ -1,0 +2 @@"), "secret", id="after-a-line-without-its-end"
        ),
        pytest.param(
            change("x", "-1", "+b", "\\ No newline at end of file"),
            "1\nsecret\n",
            id="a-line-without-its-end-before-others",
        ),
        pytest.param(
            "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n", "1\nsecret\n", id="deletes-only-a-part"
        ),
        pytest.param(
            "diff --git a/x b/x\ndeleted file mode 100644\n",
            "secret\n",
            id="deletes-more-than-said",
        ),
    ],
)
def test_refuses_what_does_not_fit_and_names_no_content(patch: str, text: str) -> None:
    (file,) = parse(patch)
    with pytest.raises(ToolError) as caught:
        apply(file, text)
    assert caught.value.code is Code.PATCH_MISMATCH
    assert caught.value.message.startswith("'x': ")
    assert "secret" not in caught.value.message + str(caught.value.details)


def test_a_mismatch_names_the_hunk() -> None:
    (file,) = parse("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n@@ -3 +3 @@\n-3\n+4\n")
    with pytest.raises(ToolError, match="hunk 2 does not fit"):
        apply(file, "1\n2\n5\n")


def test_crlf_files_keep_their_line_ends_under_a_patch_without_any() -> None:
    (file,) = parse(change("x", " a", "-b", "+c", "+d", header="@@ -1,2 +1,3 @@"))
    assert apply(file, "a\r\nb\r\n") == "a\r\nc\r\nd\r\n"


def test_a_patch_with_crlf_lines_is_taken_literally() -> None:
    (file,) = parse(change("x", " a\r", "-b\r", "+c", header="@@ -1,2 +1,2 @@"))
    assert apply(file, "a\r\nb\r\n") == "a\r\nc\n"


def test_other_line_separators_are_content() -> None:
    text = "a\x0bb\x85c\u2028d\n"
    (file,) = parse(change("x", f"-{text[:-1]}", "+b"))
    assert apply(file, text) == "b\n"


TEXTS = st.lists(
    st.sampled_from(["a", "b", "", " x", "-", "+++ b/x", "\\ q", "\u2028"]), max_size=12
)


@given(before=TEXTS, after=TEXTS, context=st.integers(0, 3))
def test_what_difflib_makes_is_applied(before: list[str], after: list[str], context: int) -> None:
    old, new = [f"{line}\n" for line in before], [f"{line}\n" for line in after]
    patch = "".join(difflib.unified_diff(old, new, "a/x", "b/x", n=context))
    if patch:
        (file,) = parse(patch)
        assert apply(file, "".join(old)) == "".join(new)


@given(st.text(alphabet='-+@ \\\n"ab/0,1', max_size=200))
def test_garbage_only_ever_meets_our_refusals(patch: str) -> None:
    with contextlib.suppress(ToolError):
        for file in parse(f"--- a/x\n+++ b/x\n{patch}"):
            apply(file, patch)


def test_large_patches_take_linear_time() -> None:
    lines = [f"+{number}" for number in range(100_000)]
    patch = "\n".join(["--- /dev/null", "+++ b/x", f"@@ -0,0 +1,{len(lines)} @@", *lines, ""])
    hostile = change("x", "-a", header="@@ -1,999999999 +1,999999999 @@") + "\n" * 500_000
    started = time.monotonic()
    (file,) = parse(patch)
    assert apply(file, "").count("\n") == len(lines)
    refused(hostile)
    assert time.monotonic() - started < 5
