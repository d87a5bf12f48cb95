"""The spellings of tool names that NeMo Gym's swe_pivot knows, and what kind of tool each is."""

from __future__ import annotations

from collections.abc import Mapping

_NAMES: Mapping[str, str] = {
    "edit": "str_replace_editor text_editor file_editor code_editor edit_file modify_file update_file file_edit edit "
    "modify apply_patch patch_file apply_diff apply_changes write write_file save_file create_file",
    "bash": "execute_bash run_bash bash_exec shell_run shell bash terminal shell_command shell_cmd run_shell_cmd "
    "exec_command exec_cmd",
    "search": "grep search_text find_pattern text_search glob find_files file_glob match_files grep_files search_files "
    "find_in_files code_search list_dir ls show_dir ls_dir list_directory",
    "read": "read read_file view_file cat_file view file_view inspect show_file read_file_content",
    "planning": "task_tracker todo_tracker plan_tracker todo_read todo_write update_plan list_tasks update_tasks "
    "read_todos write_todos edit_plan modify_plan",
    "finish": "finish submit",
    "think": "think",
}
UNKNOWN = "unknown"

CATEGORIES: Mapping[str, str] = {
    spelling: category
    for category, names in _NAMES.items()
    for name in names.split()
    for spelling in (name, name.replace("_", ""))  # snake case, and camel case in lower case
}


def category_of(name: str) -> str:
    """The kind of a tool by its name in any case, or `unknown`."""
    return CATEGORIES.get(name.lower(), UNKNOWN)
