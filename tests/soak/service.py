"""A minute of the service under many clients, as programs of their own: nothing is lost, nothing is mixed up.

    python -m tests.soak.service --seconds 60 --clients 64 --kill

Each client asks for rows and verdicts of its own, of which it knows the answer. `--kill` ends a grading process every
ten seconds. Exit status 1 where a reply is missing, wrong or another's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]


def row(number: int, right: bool) -> dict[str, Any]:
    """A row of some size, whose reward is whether its answer is right."""
    call = {"type": "function_call", "name": "f", "arguments": json.dumps({"x": number, "pad": "y" * (number % 9000)})}
    wanted = call if right else call | {"arguments": json.dumps({"x": number + 1})}
    params = {"input": [{"role": "user", "content": f"Call f with {number}."}], "tools": []}
    return {"responses_create_params": params, "expected_action": wanted, "response": {"output": [call]}, "id": number}


def client(name: int, url: str, until: float, told: Counter[str], latencies: list[float]) -> None:
    """Ask until the time is over; a busy service is asked again."""
    draw = random.Random(name)
    with httpx.Client(base_url=url, timeout=120) as http:
        while time.monotonic() < until:
            number, right = draw.randrange(10**9), draw.random() < 0.5
            sent = row(number, right)
            told["sent"] += 1
            begun = time.perf_counter()
            while (reply := http.post("/verify", json=sent)).status_code == 503:
                told["asked again"] += 1
                time.sleep(float(reply.headers["retry-after"]) * draw.random())
            latencies.append(time.perf_counter() - begun)
            got = reply.json()
            own = {key: got.get(key) for key in sent} == sent
            told["answered" if own and got.get("reward") == float(right) else "wrong"] += 1


def kill_graders(service: int, until: float, told: Counter[str]) -> None:
    """End one of the service's processes every ten seconds."""
    while time.monotonic() + 10 < until:
        time.sleep(10)
        children = Path(f"/proc/{service}/task/{service}/children").read_text().split()
        graders = [int(one) for one in children if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]
        os.kill(graders[0], signal.SIGKILL)
        told["killed"] += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--port", type=int, default=8911)
    parser.add_argument("--kill", action="store_true")
    options = parser.parse_args()
    command = [sys.executable, "-m", "flows.cli", "serve-verifier", "--port", str(options.port)]
    service = subprocess.Popen([*command, "--processes", str(options.processes)], cwd=ROOT, stdout=subprocess.PIPE)
    url = f"http://127.0.0.1:{options.port}"
    told: Counter[str] = Counter()
    latencies: list[float] = []
    try:
        assert service.stdout is not None
        service.stdout.readline()
        for _ in range(600):
            try:
                httpx.get(f"{url}/health")
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        until = time.monotonic() + options.seconds
        names = range(options.clients)
        threads = [threading.Thread(target=client, args=(name, url, until, told, latencies)) for name in names]
        if options.kill:
            threads.append(threading.Thread(target=kill_graders, args=(service.pid, until, told)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        health = httpx.get(f"{url}/health").json()
    finally:
        service.terminate()
        service.wait()
    latencies.sort()
    good = told["sent"] == told["answered"] == health["answered"] or (told["sent"] == told["answered"] and options.kill)
    spread = {f"p{q}_ms": round(1000 * latencies[len(latencies) * q // 100], 2) for q in (50, 95, 99)}
    print(json.dumps({"ok": good, **told, **spread, "deaths": health["deaths"], "refused": health["refused"]}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
