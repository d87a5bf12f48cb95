"""A real HTTP server of OpenAI's completions route around the embedded engine, which can be told to fail.

It also knows vLLM's routes that renew weights. As a program (`python -m tests.completions_server --model FOLDER ...`)
it takes vLLM's arguments, so that an environment whose interpreter runs it can stand where one with vLLM would.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from pivotrl_core.engines.protocol import FinishReason, Request, SamplingConfig

SLOW = 1.5  # seconds that a request waits where `slow` is next


class CompletionsServer(ThreadingHTTPServer):
    """Serves one policy.

    Attributes:
        faults: what happens to coming completions, in order: a status (`503`, or `429:SECONDS` with Retry-After),
            `drop` (the connection ends without an answer), `slow`, `stuck` (until the server ends), `ok`; none left:
            `always`.
        ids: whether answers carry token ids; without, unknown fields are refused, as OpenAI's own servers do.
        tempered: whether log-probabilities are those after temperature.
        asked: bodies of all completions, in the order of their coming; `busiest`: most that were there at once.
        calls: other requests that change something.
        speak: what answers chat completions, of their messages; a pair says how the answer ended too.
    """

    daemon_threads = True

    def __init__(self, policy: Any, name: str = "policy", key: str = "", port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.policy, self.name, self.key = policy, name, key
        self.adapters: dict[str, Any] = {}
        self.faults: deque[str] = deque()
        self.always = ""
        self.ids = self.tempered = True
        self.asked: list[dict[str, Any]] = []
        self.calls: list[tuple[str, Any]] = []
        self.speak: Callable[[list[dict[str, str]]], str | tuple[str, str]] = lambda messages: ""
        self.busiest = self._busy = 0
        self.ended = threading.Event()
        self._gate, self._sampling = threading.Lock(), threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, *_: Any) -> None:
        """A client that went away is what some tests are about."""

    def next_fault(self, body: dict[str, Any]) -> str:
        with self._gate:
            self.asked.append(body)
            self._busy += 1
            self.busiest = max(self.busiest, self._busy)
            return self.faults.popleft() if self.faults else self.always

    def leave(self) -> None:
        with self._gate:
            self._busy -= 1

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a completion: sampled by the embedded engine under the request's seed."""
        prompt = tuple(body["prompt"])
        sampling = SamplingConfig(body["temperature"], body["max_tokens"])
        with self._sampling:
            engine = self._engine(body["model"])
            ((sample,),) = engine.sample([Request("r", prompt, (body.get("seed", 0),))], sampling)
            top = self._likeliest(engine.model, prompt, body["temperature"])
        ended = sample.finish is FinishReason.STOP
        tokenizer = self.policy.tokenizer
        choice: dict[str, Any] = {
            "index": 0, "text": tokenizer.decode(sample.ids, skip_special_tokens=True), "finish_reason": sample.finish,
            "logprobs": None,
        }  # fmt: skip
        if self.ids:
            choice["logprobs"] = {"token_logprobs": list(sample.logprobs), "top_logprobs": [{"x": top}]}
            if body.get("return_token_ids"):
                choice |= {"token_ids": list(sample.ids), "stop_reason": sample.ids[-1] if ended else None}
        usage = {"prompt_tokens": len(prompt), "prompt_tokens_details": {"cached_tokens": len(prompt) - 1}}
        return {"choices": [choice], "usage": usage}

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a chat completion."""
        said = self.speak(body["messages"])
        text, finish = (said, "stop") if isinstance(said, str) else said
        words = len(" ".join([text, *(message["content"] for message in body["messages"])]).split())
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
        return {"choices": [choice], "usage": {"total_tokens": words}}

    def load(self, path: str) -> None:
        """Take the weights in a folder."""
        from safetensors.torch import load_file

        with self._sampling:
            weights = load_file(Path(path) / "model.safetensors")
            missing, surplus = self.policy.model.load_state_dict(weights, strict=False)
            assert (missing, surplus) == ([], []), (missing, surplus)

    def load_adapter(self, name: str, path: str) -> None:
        """Put an adapter on a copy of the model."""
        from copy import deepcopy

        from peft import PeftModel

        with self._sampling:
            self.adapters[name] = PeftModel.from_pretrained(deepcopy(self.policy.model), path).eval()

    def _engine(self, name: str) -> Any:
        from pivotrl_core.engines.transformers_engine import TransformersEngine

        model = self.adapters.get(name, self.policy.model)
        return TransformersEngine(model, [self.policy.tokenizer.eos_token_id])

    def _likeliest(self, model: Any, prompt: tuple[int, ...], temperature: float) -> float:
        import torch

        with torch.no_grad():
            logits = model(torch.tensor([prompt])).logits[0, -1]
        scale = temperature if self.tempered and temperature > 0 else 1.0
        return float(torch.log_softmax(logits / scale, dim=-1).max())


class _Handler(BaseHTTPRequestHandler):
    server: CompletionsServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Silent."""

    def do_GET(self) -> None:
        if self.path == "/version":
            self._answer(200, {"version": "1.0"})
        elif self._may_enter():
            models = [{"id": self.server.name, "max_model_len": 4096}]
            self._answer(200, {"object": "list", "data": models})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path in ("/v1/completions", "/v1/chat/completions"):
            if self._may_enter():
                self._complete(body)
            return
        self.server.calls.append((self.path, body))
        if self.path == "/collective_rpc":
            self.server.load(body["kwargs"]["weights_path"])
        elif self.path == "/v1/load_lora_adapter":
            self.server.load_adapter(body["lora_name"], body["lora_path"])
        elif self.path == "/v1/unload_lora_adapter":
            del self.server.adapters[body["lora_name"]]
        self._answer(200, {"success": True})

    def _complete(self, body: dict[str, Any]) -> None:
        fault = self.server.next_fault(body)
        try:
            if fault == "drop":
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if fault in ("slow", "stuck"):
                self.server.ended.wait(SLOW if fault == "slow" else None)
            elif fault not in ("", "ok"):
                status, _, wait = fault.partition(":")
                self._answer(int(status), {"error": f"told to, with {self.headers.get('Authorization')}"}, wait)
                return
            if not self.server.ids and "return_token_ids" in body:
                self._answer(400, {"error": "Unrecognized request argument: return_token_ids"})
                return
            self._answer(200, self.server.chat(body) if "messages" in body else self.server.complete(body))
        finally:
            self.server.leave()

    def _may_enter(self) -> bool:
        if self.server.key and self.headers.get("Authorization") != f"Bearer {self.server.key}":
            self._answer(401, {"error": f"wrong key: {self.headers.get('Authorization')}"})
            return False
        return True

    def _answer(self, status: int, value: Any, wait: str = "") -> None:
        content = json.dumps(value).encode()
        with suppress(OSError):
            self.send_response(status)
            if wait:
                self.send_header("Retry-After", wait)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)


def main() -> None:
    """Serve with vLLM's arguments; a child of ours, as vLLM has them, stays until it is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--served-model-name")
    parser.add_argument("--port", type=int)
    known, _ = parser.parse_known_args()
    told = os.environ.get("STAND_IN", "")
    print("stand-in: starting", flush=True)
    if told == "broken":
        raise SystemExit("stand-in: no such device")
    import subprocess
    import sys

    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(os.environ["STAND_IN_PIDS"]).write_text(f"{os.getpid()} {child.pid}")
    if told == "slow":
        time.sleep(600)
    policy: Any = None
    if told == "serving":
        from pivotrl_core.engines.model import load_model
        from tests.tiny_models import COMPUTE

        policy = load_model(Path(known.model), COMPUTE)
    key = os.environ["VLLM_API_KEY"]
    CompletionsServer(policy, known.served_model_name, key, known.port).serve_forever(0.02)


if __name__ == "__main__":
    main()
