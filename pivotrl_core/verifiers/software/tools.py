"""Tools of coding agents by what they do: SWE-agent, OpenHands, mini-swe-agent, Claude Code, Gemini CLI, Codex, droids.

One table of names, one of the words that stand for a sub-command, one of the names that arguments have. A name is
looked up without case and punctuation, so `str_replace_editor` and `StrReplaceEditor` are one. A tool that is not here
is compared as any other tool is: by its name and its arguments under its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pivotrl_core.verifiers.naming import plain_name


class Category(StrEnum):
    EDIT = "edit"
    BASH = "bash"
    SEARCH = "search"
    READ = "read"
    PLANNING = "planning"
    FINISH = "finish"
    THINK = "think"
    OTHER = "other"


class Operation(StrEnum):
    """What a call does. The comment names what identifies it."""

    VIEW = "view"  # path, lines
    PAGE_DOWN = "page_down"  # of the open file
    PAGE_UP = "page_up"
    GOTO = "goto"  # line of the open file
    CREATE = "create"  # path, text: the file as it will be
    REPLACE = "replace"  # path, pairs of old and new text
    INSERT = "insert"  # path, line, text
    LINES = "lines"  # lines of a file, or of the open one, and the text that takes their place
    PATCH = "patch"  # text
    DELETE = "delete"  # path
    UNDO = "undo"  # path
    RUN = "run"  # command
    CONTENT = "content"  # pattern, path: which lines match
    FILES = "files"  # pattern, path: which files are called so
    LIST = "list"  # path
    PLAN = "plan"
    LOOK_UP_PLAN = "look_up_plan"
    FINISH = "finish"
    THINK = "think"  # text
    CALL = "call"  # any other tool: all of its arguments


CATEGORY_OF: Mapping[Operation, Category] = {
    **dict.fromkeys((Operation.VIEW, Operation.PAGE_DOWN, Operation.PAGE_UP, Operation.GOTO), Category.READ),
    **dict.fromkeys((Operation.CONTENT, Operation.FILES, Operation.LIST), Category.SEARCH),
    **dict.fromkeys((Operation.PLAN, Operation.LOOK_UP_PLAN), Category.PLANNING),
    Operation.RUN: Category.BASH,
    Operation.FINISH: Category.FINISH,
    Operation.THINK: Category.THINK,
    Operation.CALL: Category.OTHER,
    **dict.fromkeys(
        (Operation.CREATE, Operation.REPLACE, Operation.INSERT, Operation.LINES, Operation.PATCH, Operation.DELETE,
         Operation.UNDO),
        Category.EDIT,
    ),
}  # fmt: skip

_NAMES: Mapping[Operation, str] = {
    Operation.VIEW: "view read read_file view_file open open_file cat show_file file_read get_file_contents",
    Operation.GOTO: "goto",
    Operation.PAGE_DOWN: "scroll_down",
    Operation.PAGE_UP: "scroll_up",
    Operation.CREATE: "create create_file write write_file write_to_file new_file file_write overwrite_file save_file",
    Operation.REPLACE: "str_replace replace replace_in_file search_replace search_and_replace edit_file multi_edit "
    "replace_string replace_string_in_file string_replace file_edit",
    Operation.INSERT: "insert insert_content insert_line insert_text",
    Operation.LINES: "replace_lines edit_lines",
    Operation.PATCH: "apply_patch patch apply_diff",
    Operation.DELETE: "delete_file remove_file",
    Operation.UNDO: "undo_edit",
    Operation.RUN: "bash execute_bash run_bash shell run run_command execute_command execute terminal "
    "run_terminal_cmd run_terminal_command run_in_terminal run_shell_command local_shell shell_command exec "
    "exec_command cmd_run sh console command",
    Operation.CONTENT: "grep search search_dir search_file search_files search_code code_search grep_search ripgrep rg "
    "search_text search_file_content find_in_files",
    Operation.FILES: "glob find_file find_files find file_search glob_file_search find_by_name",
    Operation.LIST: "ls list list_dir list_directory list_files read_folder",
    Operation.PLAN: "todo_write write_todos update_plan create_plan plan task_tracker task_tracking todo_list "
    "manage_todo_list",
    Operation.LOOK_UP_PLAN: "todo_read read_todos",
    Operation.FINISH: "finish submit attempt_completion complete complete_task task_complete task_done done exit "
    "final_answer",
    Operation.THINK: "think thinking reason reflect sequential_thinking",
}
_EDITORS = frozenset({"strreplaceeditor", "strreplacebasededittool", "strreplacebasededit", "texteditor", "fileeditor",
                      "editor", "edit", "editanthropic"})  # fmt: skip
"""Editors of many sub-commands; what one does is told by `command`, or by the arguments that it has."""
_SUB_COMMANDS: Mapping[str, Operation] = {
    "view": Operation.VIEW, "read": Operation.VIEW, "create": Operation.CREATE, "write": Operation.CREATE,
    "strreplace": Operation.REPLACE, "replace": Operation.REPLACE, "edit": Operation.REPLACE,
    "insert": Operation.INSERT, "undoedit": Operation.UNDO, "undo": Operation.UNDO, "delete": Operation.DELETE,
}  # fmt: skip

PATH = ("path", "file_path", "filepath", "filePath", "absolute_path", "target_file", "file", "filename", "file_name",
        "notebook_path", "dir", "directory", "dir_path", "directory_path", "target_directory", "folder")  # fmt: skip
PATTERN = ("pattern", "regex", "query", "search_term", "glob_pattern", "file_pattern", "name_pattern", "file_name",
           "filename", "name", "term", "search", "text")  # fmt: skip
OLD = ("old_str", "old_string", "oldString", "old_text", "old", "search", "search_string", "old_content", "target")
NEW = ("new_str", "new_string", "newString", "new_text", "new", "replace", "replacement", "new_content")
TEXT = ("file_text", "content", "contents", "text", "new_str", "insert_text", "new_text", "replacement",
        "replacement_text", "thought", "thinking", "reasoning", "body")  # fmt: skip
PATCH_TEXT = ("patch", "diff", "input", "text", "patch_text", "code_edit")
COMMAND = ("command", "cmd", "script", "input", "code")
PAIRS = ("edits", "replacements", "changes")
ONE_LINE = ("insert_line", "line", "line_number", "lineNumber", "insert_after_line")
FIRST_LINE = ("start_line", "start", "line_start", "first_line", "startLine")
LAST_LINE = ("end_line", "end", "line_end", "last_line", "endLine")
RANGE = ("view_range", "range", "line_range", "lines")
UNCOUNTED = frozenset({
    "description", "explanation", "instructions", "instruction", "reasoning", "thought", "summary", "security_risk",
    "timeout", "timeout_ms", "yield_time_ms", "intent", "toolsummary", "toolaction", "blocking",
})  # fmt: skip
"""Arguments that say why or how long, not what."""
OPTIONS: Mapping[str, str] = {
    "-i": "ignore_case", "case_insensitive": "ignore_case", "ignoreCase": "ignore_case", "caseInsensitive":
    "ignore_case", "include": "only_files", "include_pattern": "only_files", "glob": "only_files", "include_glob":
    "only_files", "file_glob": "only_files", "replaceAll": "replace_all", "allow_multiple": "replace_all",
    "recursive": "recursive",
}  # fmt: skip
"""Names that options have in several tools, by one name."""

_OPERATIONS = {plain_name(name): operation for operation, names in _NAMES.items() for name in names.split()}


def operation_of(name: str, arguments: Mapping[str, object]) -> Operation:
    """What a call of this name with these arguments does."""
    plain = plain_name(name)
    if plain in _EDITORS:
        return _editor_operation(arguments)
    found = _OPERATIONS.get(plain, Operation.CALL)
    if found is Operation.REPLACE and not any(key in arguments for key in (*OLD, *PAIRS)):
        return (
            Operation.LINES if _has(arguments, FIRST_LINE) else Operation.PATCH if "code_edit" in arguments else found
        )
    if found is Operation.PLAN and arguments.get("command") == "view":
        return Operation.LOOK_UP_PLAN
    return found


def _editor_operation(arguments: Mapping[str, object]) -> Operation:
    command = arguments.get("command")
    if isinstance(command, str):
        return _SUB_COMMANDS.get(plain_name(command), Operation.CALL)
    if _has(arguments, PAIRS) or _has(arguments, OLD):
        return Operation.REPLACE
    if _has(arguments, FIRST_LINE):
        return Operation.LINES
    return Operation.CREATE if _has(arguments, TEXT) else Operation.REPLACE


def _has(arguments: Mapping[str, object], names: tuple[str, ...]) -> bool:
    return any(name in arguments for name in names)
