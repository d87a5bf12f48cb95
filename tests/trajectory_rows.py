"""One small row of each trajectory format, written for these tests: a question, a call, its result, an answer."""

from __future__ import annotations

import json
from typing import Any

FIND = {
    "type": "function",
    "function": {"name": "find", "parameters": {"type": "object", "properties": {"id": {"type": "string"}}}},
}
USER = {"role": "user", "content": "Where is A1?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"id": "A1"}'}}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "on its way"}
ANSWER = {"role": "assistant", "content": "On its way."}
CHAT = {
    "messages": [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}, RESULT, ANSWER],
    "tools": [FIND],
}

OUTPUT = [
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
    {"type": "function_call", "name": "find", "arguments": '{"id": "A1"}', "call_id": "c1"},
    {"type": "function_call_output", "call_id": "c1", "output": "on its way"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "On its way."}]},
]
RESPONSES = {"instructions": "Be kind.", "input": [USER], "output": OUTPUT, "tools": [FIND["function"]]}
SIMULATION = {
    "responses_create_params": {"input": [USER], "tools": [FIND["function"]]},
    "response": {"output": OUTPUT},
    "id": "t1",
    "reward": 1,
}
PIVOT = {
    "responses_create_params": {"input": [USER, *OUTPUT[:3]], "tools": [FIND["function"]]},
    "expected_action": {"type": "message", "content": "On its way."},
}

TERMINUS = {
    "schema_version": "ATIF-v1.4",
    "session_id": "s1",
    "agent": {"name": "terminus-2", "version": "2.0.0"},
    "steps": [
        {"step_id": 1, "source": "user", "message": "Answer in JSON. Make hello.txt."},
        {
            "step_id": 2,
            "source": "agent",
            "message": "Analysis: Nothing is there.\nPlan: Write it.",
            "reasoning_content": "hm",
            "tool_calls": [
                {
                    "tool_call_id": "call_0_1",
                    "function_name": "bash_command",
                    "arguments": {"keystrokes": "echo hi > hello.txt\n", "duration": 0.1},
                }
            ],
            "observation": {"results": [{"content": "$ "}]},
        },
        {
            "step_id": 3,
            "source": "agent",
            "message": "Analysis: It is there.\nPlan: Done.",
            "tool_calls": [{"tool_call_id": "call_1_end", "function_name": "mark_task_complete", "arguments": {}}],
        },
    ],
}
ATIF = {
    "schema_version": "ATIF-v1.4",
    "agent": {"name": "claude-code", "version": "1", "tool_definitions": [FIND]},
    "steps": [
        {"step_id": 1, "source": "system", "message": "Be kind."},
        {"step_id": 2, "source": "user", "message": "Where is A1?"},
        {
            "step_id": 3,
            "source": "agent",
            "message": "I look.",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "find", "arguments": {"id": "A1"}}],
            "observation": {"results": [{"source_call_id": "c1", "content": "on its way"}]},
        },
        {"step_id": 4, "source": "agent", "message": "On its way."},
    ],
}

SWE_CALLS = {
    "history": [
        {"role": "system", "content": "You are a programmer.", "agent": "main", "message_type": "system_prompt"},
        {"role": "user", "content": "Mend it.", "agent": "main", "message_type": "observation"},
        {
            "role": "assistant",
            "content": "I open it.",
            "thought": "I open it.",
            "action": "open a.py",
            "agent": "main",
            "tool_calls": [{"id": "c1", "function": {"name": "open", "arguments": '{"path": "a.py"}'}}],
            "thinking_blocks": [{"type": "thinking", "thinking": "hm"}],
        },
        {"role": "tool", "content": "1:x", "agent": "main", "tool_call_ids": ["c1"]},
        {"role": "assistant", "content": "Done.", "agent": "main"},
    ],
    "info": {"exit_status": "submitted", "submission": "diff"},
}
SWE_TEXT = {
    "environment": "swe_main",
    "trajectory": [
        {"action": "ls\n", "observation": "a.py", "response": "I look.\n\n```\nls\n```", "thought": "I look."}
    ],
    "history": [
        {"role": "system", "content": "You are a programmer.", "agent": "primary"},
        {"role": "user", "content": "A demonstration.", "agent": "primary", "is_demo": True},
        {"role": "assistant", "content": "Shown.", "agent": "primary", "is_demo": True},
        {"role": "user", "content": "Mend it.", "agent": "primary"},
        {
            "role": "assistant",
            "content": "I look.\n\n```\nls\n```",
            "thought": "I look.\n\n",
            "action": "ls\n",
            "agent": "primary",
        },
        {"role": "user", "content": "a.py", "agent": "primary"},
        {"role": "user", "content": "Find the bug.", "agent": "helper"},
        {"role": "assistant", "content": "Done.", "thought": "Done.", "action": "", "agent": "primary"},
    ],
    "info": {"exit_status": "submitted"},
}
MINI = {
    "info": {"exit_status": "Submitted", "mini_version": "2.2.7"},
    "messages": [
        {"role": "system", "content": "One bash block."},
        {"role": "user", "content": "Mend it."},
        {"role": "assistant", "content": "THOUGHT: I look.\n\n```bash\nls -la\n```"},
        {"role": "user", "content": "<returncode>0</returncode>\n<output>\na.py\n</output>"},
        {"role": "assistant", "content": "Two:\n```bash\nls\n```\n```bash\npwd\n```"},
        {"role": "user", "content": "Exactly one block, please."},
        {"role": "exit", "content": "Submitted"},
    ],
}

RESPONSE = {"id": "r1", "choices": [{"message": {"role": "assistant", "content": "I look.", "tool_calls": [CALL]}}]}
METADATA = {"function_name": "find", "tool_call_id": "c1", "model_response": RESPONSE, "total_calls_in_response": 1}
OPENHANDS = [
    {"id": 0, "source": "agent", "action": "system", "args": {"content": "You are OpenHands.", "tools": [FIND]}},
    {"id": 1, "source": "user", "action": "message", "args": {"content": "Where is A1?", "image_urls": None}},
    {"id": 2, "source": "user", "action": "recall", "args": {"query": "A1"}},
    {"id": 3, "source": "agent", "observation": "recall", "content": "", "cause": 2, "extras": {}},
    {"id": 4, "source": "agent", "action": "run", "args": {"command": "find A1"}, "tool_call_metadata": METADATA},
    {
        "id": 5,
        "source": "agent",
        "observation": "run",
        "content": "on its way",
        "cause": 4,
        "tool_call_metadata": METADATA,
        "extras": {},
    },
    {"id": 6, "source": "environment", "observation": "agent_state_changed", "content": "", "extras": {}},
    {"id": 7, "source": "agent", "action": "message", "args": {"content": "On its way.", "wait_for_response": True}},
]
OPENHANDS_PLAIN = {
    "instance_id": "i1",
    "history": [
        [
            {"source": "user", "action": "message", "args": {"content": "Mend it."}},
            {"source": "agent", "observation": "null", "content": "", "extras": {}},
        ],
        [
            {"source": "agent", "action": "run", "args": {"command": "ls", "thought": "I look.", "is_confirmed": "c"}},
            {"source": "agent", "observation": "run", "content": "a.py", "extras": {"exit_code": 0}},
        ],
    ],
}
OPENHANDS_SDK = [
    {
        "kind": "SystemPromptEvent",
        "source": "agent",
        "system_prompt": {"type": "text", "text": "Be kind."},
        "tools": [FIND],
    },
    {
        "kind": "MessageEvent",
        "source": "user",
        "llm_message": {"role": "user", "content": [{"type": "text", "text": "Where is A1?"}]},
    },
    {"kind": "ConversationStateUpdateEvent", "source": "environment", "key": "x"},
    {
        "kind": "ActionEvent",
        "source": "agent",
        "thought": [{"type": "text", "text": "I look."}],
        "reasoning_content": "hm",
        "tool_name": "find",
        "tool_call_id": "c1",
        "tool_call": {"id": "c1", "name": "find", "arguments": '{"id": "A1"}'},
        "llm_response_id": "r1",
    },
    {
        "kind": "ActionEvent",
        "source": "agent",
        "thought": [],
        "tool_name": "find",
        "tool_call_id": "c2",
        "action": {"kind": "FindAction", "id": "B2"},
        "llm_response_id": "r1",
    },
    {
        "kind": "ObservationEvent",
        "source": "environment",
        "tool_call_id": "c1",
        "observation": {"content": [{"type": "text", "text": "on its way"}]},
    },
    {"kind": "AgentErrorEvent", "source": "agent", "tool_call_id": "c2", "error": "no such order"},
]

TAU2_RUN = {
    "id": "sim1",
    "task_id": "t1",
    "termination_reason": "user_stop",
    "reward_info": {"reward": 1.0},
    "trial": 0,
    "messages": [
        {"role": "assistant", "content": "Hi!"},
        {"role": "user", "content": "Where is A1?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "name": "find", "arguments": {"id": "A1"}, "requestor": "assistant"}],
        },
        {"id": "c1", "role": "tool", "content": "on its way", "requestor": "assistant", "error": False},
        {"role": "assistant", "content": "Look at your phone."},
        {
            "role": "user",
            "content": None,
            "tool_calls": [{"id": "u1", "name": "look", "arguments": {}, "requestor": "user"}],
        },
        {"id": "u1", "role": "tool", "content": "it rings", "requestor": "user", "error": False},
        {"role": "user", "content": "It rings. ###STOP###"},
    ],
}
TAU2 = {
    "timestamp": "2026",
    "info": {"environment_info": {"domain_name": "shop", "policy": "Be kind.", "tool_defs": None}},
    "tasks": [],
    "simulations": [
        TAU2_RUN,
        {
            **TAU2_RUN,
            "id": "sim2",
            "task_id": "t2",
            "messages": [
                {"role": "user", "content": "Cancel A1."},
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c9", "name": "cancel", "arguments": {"id": "A1", "fee": 2}}],
                },
            ],
        },
    ],
}
TAU = [
    {"task_id": 0, "reward": 1.0, "info": {}, "trial": trial, "traj": [USER, {**ANSWER, "content": said}, USER, turn]}
    for trial, said, turn in ((0, "Hm.", CHAT["messages"][1]), (1, "Let me see.", ANSWER))
]

HERMES = {
    "id": "h1",
    "conversations": [
        {
            "from": "system",
            "value": "Functions stand within <tools> </tools> tags:\n<tools>\n"
            + json.dumps([FIND])
            + "\n</tools>\nCall them in <tool_call></tool_call> tags.",
        },
        {"from": "human", "value": "Where are A1 and B2?"},
        {
            "from": "gpt",
            "value": "<think>hm</think>I look.\n"
            '<tool_call>\n{"name": "find", "arguments": {"id": "A1"}}\n</tool_call>\n'
            '<tool_call>\n{"name": "find", "arguments": {"id": "B2"}}\n</tool_call>',
        },
        {
            "from": "tool",
            "value": "<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>",
        },
        {"from": "gpt", "value": "Here and there."},
    ],
}
SHAREGPT = {
    "system": "Be kind.",
    "tools": json.dumps([FIND["function"]]),
    "conversations": [
        {"from": "human", "value": "Where is A1?"},
        {"from": "function_call", "value": '{"name": "find", "arguments": {"id": "A1"}}'},
        {"from": "observation", "value": "on its way"},
        {"from": "gpt", "value": "On its way."},
    ],
}

ROWS: dict[str, tuple[str, Any]] = {
    "chat": ("openai-chat", CHAT),
    "bare chat": ("openai-chat", CHAT["messages"]),
    "pivot": ("nemo-gym", PIVOT),
    "responses": ("openai-responses", RESPONSES),
    "simulation": ("openai-responses", SIMULATION),
    "terminus": ("atif", TERMINUS),
    "atif": ("atif", ATIF),
    "swe-agent with calls": ("swe-agent", SWE_CALLS),
    "swe-agent in text": ("swe-agent", SWE_TEXT),
    "mini-swe-agent": ("mini-swe-agent", MINI),
    "bare mini-swe-agent": ("mini-swe-agent", MINI["messages"]),
    "openhands": ("openhands", OPENHANDS),
    "openhands without responses": ("openhands", OPENHANDS_PLAIN),
    "openhands sdk": ("openhands-sdk", OPENHANDS_SDK),
    "tau2": ("tau2-bench", TAU2),
    "one tau2 run": ("tau2-bench", TAU2_RUN),
    "tau": ("tau-bench", TAU),
    "hermes": ("sharegpt", HERMES),
    "sharegpt": ("sharegpt", SHAREGPT),
}
"""By name: the reader that a row is for, and the row."""
