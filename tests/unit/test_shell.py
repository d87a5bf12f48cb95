"""Two spellings of one command have one normal form; two commands have two."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pivotrl_core.verifiers import sandbox
from pivotrl_core.verifiers.effects import difference, run_script
from pivotrl_core.verifiers.shell import normal_form
from pivotrl_core.verifiers.shell_options import sorted_options
from pivotrl_core.verifiers.workspace import Node, NodeKind, make_workspace

SAME = [
    ("ls -la", "ls  -a -l  # all"),
    ("ls -la /tmp", "ls /tmp --all -l"),
    ("grep -rn 'foo bar' src", 'grep -n --recursive "foo bar" src'),
    ("grep -A3 x f", "grep -A 3 x f"),
    ("grep -e a -i b", "grep -i -e a b"),
    ("head -5 f", "head --lines=5 f"),
    ("rm -rf a", "rm -fR a"),
    ("cd x && ls", "cd x; ls"),
    ("cd x && ls", "cd x\nls\n"),
    ("a; b", "a\n\nb\n"),
    ("cat f|sort", "cat f  |  sort"),
    ("a && \\\n  b", "a && b"),
    ("echo $X", "echo ${X}"),
    ("echo `ls -la`", "echo $(ls -al)"),
    ('echo "$(ls -la)"', 'echo "`ls -al`"'),
    ("echo 'a b'", "echo a\\ b"),
    ("sed -i 's/a/b/' f", 'sed -i "s/a/b/" f'),
    ("python3 -c \"print('x')\"", "python3 -c 'print('\"'\"'x'\"'\"')'"),
    ("cat <<'EOF' > f\nhi  there\nEOF\n", "cat << 'END' >f\nhi  there\nEND\n"),
    ("if a; then b; else c; fi", "if a\nthen\n  b\nelse\n  c\nfi"),
    ("for i in 1 2; do echo $i; done", "for i in 1 2\ndo\n  echo ${i}\ndone"),
    ("while true; do a; done", "while true\ndo a\ndone"),
    ("case x in a) ls;; b) cat;; esac", "case x in\na) ls ;;\nb) cat\nesac"),
    ("f() { a; b; }", "f() {\n  a\n  b\n}"),
    ("a 2>&1 >f", "a  2>&1  > 'f'"),
    ("X='1' a", "X=1 a"),
    ("head -n 1 f", "cat f | head -1"),
    ("grep -n x ./f", "grep --line-number x < f"),
    ("awk '/x/ {print $1}' f | sort -r | uniq", "cat f | awk '/x/ {print $1}' | sort -ru"),
    ("cut --delimiter=x --fields=1 f", "(cut -d x -f1 f)"),
    ("cat ./f | wc --lines", "wc -l < f"),
    ("sed -n '$p' f", "sed --quiet '$p' < f"),
    ("(sort f | uniq) > g; rm ./g", "(sort -u f) > g; rm g"),
    ("(git --version)", "git  --version"),
    ("", "  # nothing"),
]
DIFFERENT = [
    ("rm -rf a", "rm -rf b"),
    ("ls -t -S", "ls -S -t"),  # the last one wins
    ("grep -r x", "grep -R x"),  # one follows links
    ("grep -- -x f", "grep -x f"),
    ("a && b", "a; b"),
    ("cd x || b", "cd x; b"),
    ("a > f", "a >> f"),
    ("a > f", "a; > f"),
    ("a 2>f", "a 2 >f"),
    ("a > f 2>&1", "a 2>&1 > f"),
    ("a &", "a"),
    ("x=1", "x = 1"),
    ("x=1 a", "x=1; a"),
    ('echo "$X"', "echo $X"),
    ("echo '$X'", "echo $X"),
    ("echo '*'", "echo *"),
    ("echo '~'", "echo ~"),
    ("echo 'a  b'", "echo 'a b'"),
    ("echo ''", "echo"),
    ("echo a#b", "echo a"),
    ("a b", "ab"),
    ("! a", "a"),
    ("cat <<EOF\n$X\nEOF\n", "cat <<'EOF'\n$X\nEOF\n"),
    ("cat <<EOF\nx\nEOF\n", "cat <<EOF\nx \nEOF\n"),
    ("if a; then b c; d; fi", "if a; then b; c d; fi"),
    ("if a; then b & fi", "if a; then b; fi"),
    ("python3 -c 'if x:\n  y'", "python3 -c 'if x:\n y'"),
    ("wc -l f", "wc -l < f"),  # one names the file
    ("head -v f", "head -v < f"),
    ("grep -H x f", "grep -H x < f"),
    ("grep -r x", "cat f | grep -r x"),
    ("awk '{print FILENAME}' f", "awk '{print FILENAME}' < f"),
    ("awk '{print}' n=1", "awk '{print}' < n=1"),
    ("head *.txt", "head < *.txt"),
    ("cat f g | head", "cat f | head"),
    ("sort -k 2 f | uniq", "sort -u -k 2 f"),
    ("sort f | uniq -c", "sort -u f"),
    ("sort f -o f", "sort -o f < f"),
    ("sed -i s/a/b/ f", "sed -i s/a/b/ < f"),
    ("sed -in s/a/b/ f", "sed -ni s/a/b/ f"),  # a suffix, and two options
    ("awk 'x' -v a=1", "awk -v a=1 'x'"),
    ("(cd x; ls)", "cd x; ls"),
    ("(x=1; ls)", "x=1; ls"),
    ("(ls | grep x) 2> f", "ls | grep x 2> f"),
    ("grep ./f x", "grep f x"),
    ("ln -s ./f g", "ln -s f g"),
    ("./head f", "head f"),
]
DIFFERENT_WHEN_RUN = [
    ("f=v1x2; [[ $f =~ v1.2 ]]; echo $?", 'f=v1x2; [[ $f =~ "v1.2" ]]; echo $?'),
    ("echo $(echo '\\\\.py')", "echo `echo '\\\\.py'`"),
    ("cd src; true & wait; ls", "cd src && true & wait; ls"),
    ("cd src; true && true & wait; ls", "cd src && true && true & wait; ls"),
    ("set -- a b; echo $10", "set -- a b; echo ${10}"),
    ("head -n 2 -c 1 f", "head -c 1 -n 2 f"),
    ("tail -n 2 -c 2 f", "tail -c 2 -n 2 f"),
    ("head -q -v f", "head -v -q f"),
    ("tail -q -v f", "tail -v -q f"),
    ("chmod +x f; ls -F -p", "chmod +x f; ls -p -F"),
    ("ls; true", "ls;; true"),
    ("echo s/a/x/ > s; sed -e s/x/y/ -f s f", "echo s/a/x/ > s; sed -f s -e s/x/y/ f"),
    ("printf '1\\n1.0\\n' > g; sort --general-numeric-sort g | uniq",
     "printf '1\\n1.0\\n' > g; sort -u --general-numeric-sort g"),
    ('export P="$P":~/bin; echo $P', 'export P="$P:~/bin"; echo $P'),
    ("P=$P:~/bin; echo $P", 'P=$P":~/bin"; echo $P'),
    ("x=' a'; printf '[%s]' \"\"$x", "x=' a'; printf '[%s]' $x"),
    ('echo {a","b}', "echo {a,b}"),
    ("echo {a\\,b}", "echo {a,b}"),
    ('echo [a"-"z]', "echo [a-z]"),
    ('echo ~"/x"', "echo ~/x"),
]  # fmt: skip


@pytest.mark.skipif(sandbox.available() is not None, reason=f"no sandbox: {sandbox.available()}")
@pytest.mark.parametrize(("one", "other"), DIFFERENT_WHEN_RUN)
def test_what_a_real_shell_does_otherwise_has_another_form(one: str, other: str) -> None:
    assert normal_form(one) is not None
    assert normal_form(one) != normal_form(other)
    start = make_workspace({"f": Node(NodeKind.FILE, b"a\nx\nb\n"), "src/f": Node(NodeKind.FILE, b"")})
    assert difference(*(run_script(text, start, sandbox.SandboxLimits()) for text in (one, other))) != ""


@pytest.mark.parametrize(("one", "other"), SAME)
def test_spellings_of_one_command_have_one_form(one: str, other: str) -> None:
    assert normal_form(one) is not None
    assert normal_form(one) == normal_form(other)


@pytest.mark.skipif(sandbox.available() is not None, reason=f"no sandbox: {sandbox.available()}")
@pytest.mark.parametrize(("one", "other"), SAME)
def test_spellings_of_one_command_do_the_same_in_a_real_shell(one: str, other: str) -> None:
    files = {"f": b"a\nx\nb\n", "src/f": b"foo bar\n", "x/y": b"", "a/b": b""}
    start = make_workspace({name: Node(NodeKind.FILE, content) for name, content in files.items()})
    effects = [run_script(text, start, sandbox.SandboxLimits()) for text in (one, other)]
    assert difference(*effects) == ""


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_commands_have_different_forms(one: str, other: str) -> None:
    assert normal_form(one) is not None
    assert normal_form(one) != normal_form(other)


@pytest.mark.parametrize(
    "text",
    [
        "cat <<EOF\nx\nEOF  # end",
        "cat <<EOF\nx\nEOF \nls\n",
        "if a; then",
        "echo 'open",
        "ls;;",
        "if a;; then b; fi",
        "a\0b",
        "x" * 30_000,
        "(" * 5_000,
    ],
)
def test_what_is_no_shell_or_too_long_has_no_form(text: str) -> None:
    assert normal_form(text) is None


@pytest.mark.parametrize("text", ["\ud800", "echo '\udcff'", "$(" * 500 + ")" * 500, "é ü 漢字", "\u2028", "\r\n"])
def test_no_text_raises(text: str) -> None:
    normal_form(text)


def test_one_unknown_option_leaves_a_command_as_it_is() -> None:
    assert sorted_options(["ls", "-l", "--sort=size", "-a"]) == ["ls", "-l", "--sort=size", "-a"]
    assert sorted_options(["find", "-b", "-a"]) == ["find", "-b", "-a"]
    assert sorted_options(["grep", "x", "-A"]) == ["grep", "x", "-A"]
    assert sorted_options(["rm", "-f", "--", "-r"]) == ["rm", "-f", "--", "-r"]


def test_characters_that_the_parser_reads_out_of_bounds_for_have_no_form() -> None:
    # In a process of its own: each of these ended it.
    script = (
        "import random; from pivotrl_core.verifiers.shell import normal_form; r = random.Random(1)\n"
        "for _ in range(3000):\n"
        "    assert normal_form('I{' + ''.join(chr(r.randint(0x10000, 0x10ffff)) for _ in range(5))) is None"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0
    assert normal_form("echo 'na\u00efve'") == normal_form('echo "na\u00efve"')
