"""Plausible report files of a finished run, written by one function. Invented numbers, for tests only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from pivotrl_core.evaluation.comparison import compare
from pivotrl_core.evaluation.scorecard import read_evaluation
from pivotrl_core.files import read_json, write_json, write_jsonl

SKILL = {"base": 0.20, "sft": 0.42, "pivotrl": 0.46, "lambda-04": 0.38, "lambda-08": 0.44}
OOD = {"base": 0.0, "sft": -0.10, "pivotrl": 0.0, "lambda-04": 0.01, "lambda-08": -0.01}
KL = {"base": 0.0, "sft": 0.071, "pivotrl": 0.0036, "lambda-04": 0.003, "lambda-08": 0.005}
LAMBDAS = {"pivotrl": 0.6, "lambda-04": 0.4, "lambda-08": 0.8}
BENCHMARKS = ("ifbench", "aime25", "math500", "mmlu-pro", "mmlu-prox", "wmt24pp")
CODE = ("livecodebench", "scicode")
HOSTILE = "<script>alert('x')</script> & <img src=http://evil.example/x.png>"


def write_reports(
    root: Path, arms: tuple[str, ...] = ("base", "sft", "pivotrl"), seeds: tuple[int, ...] = (0,)
) -> Path:
    """Write params.yaml, graph.yaml, profile, pools, train, evaluate, timings and compare reports below `root`."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "params.yaml").write_text(yaml.safe_dump(_params(arms, seeds), sort_keys=False))
    graph = _graph(arms, seeds)
    (root / "graph.yaml").write_text(yaml.safe_dump(graph))
    _write_profile(root / "data/profiles/base")
    for arm in arms:
        if arm != "base":
            _write_pool(root / "data/pools" / arm, arm)
        for seed in seeds:
            _write_evaluation(root / f"reports/evaluate/{arm}-{seed}", arm, seed)
            if arm != "base":
                _write_training(root / f"reports/train/{arm}-{seed}", arm, seed)
                _write_timing(root, f"train@{arm}-{seed}", 300.0 + 10 * seed)
            _write_timing(root, f"evaluate@{arm}-{seed}", 120.0)
    _write_timing(root, "profile@base", 190.0)
    write_json(root / "reports/compare/report.json", comparison(root))
    return root


def comparison(root: Path) -> dict[str, Any]:
    """The comparison of what lies below `root`."""
    evaluations = [read_evaluation(folder) for folder in sorted((root / "reports/evaluate").iterdir())]
    reports = {
        part: {path.parent.name: read_json(path) for path in sorted((root / where).glob("*/report.json"))}
        for part, where in (("selects", "data/pools"), ("trains", "reports/train"), ("profiles", "data/profiles"))
    }
    return compare(evaluations, **reports, graph=yaml.safe_load((root / "graph.yaml").read_text()))


def _params(arms: tuple[str, ...], seeds: tuple[int, ...]) -> dict[str, Any]:
    tree: dict[str, Any] = {"base": {}}
    for arm in arms:
        if arm == "sft":
            tree[arm] = {"select": {"rule": "all"}, "train": {"method": "sft", "epochs": 2}}
        elif arm != "base":
            select = {"rule": "pivots", "lambda_diff": LAMBDAS[arm]}
            tree[arm] = {"select": select, "train": {"method": "grpo", "reward": "functional", "steps": 24}}
    return {"model": {"kind": "bundled"}, "profile": {"samples": 8}, "seeds": list(seeds), "arms": tree}


def _graph(arms: tuple[str, ...], seeds: tuple[int, ...]) -> dict[str, Any]:
    trained = [arm for arm in arms if arm != "base"]
    trains = {
        f"{arm}-{seed}": {"arm": arm, "seed": seed, "start": "models/base", "pool": arm}
        for arm in trained
        for seed in seeds
    }
    return {"selects": {arm: {"arm": arm, "profile": "base"} for arm in trained}, "trains": trains}


def _successes() -> Any:
    return np.random.default_rng(1).choice(9, size=303, p=[0.13, 0.06, 0.06, 0.07, 0.08, 0.09, 0.09, 0.11, 0.31])


def _write_profile(folder: Path) -> None:
    mu = _successes() / 8
    metrics = {
        "profile/mean_reward": float(mu.mean()),
        "profile/all_zero_share": float((mu == 0).mean()),
        "profile/all_one_share": float((mu == 1).mean()),
        "profile/mixed_share": float(((mu > 0) & (mu < 1)).mean()),
        "cost/rollout_turns": 303.0 * 8,
        "cost/generated_tokens": 52_000.0,
        "cost/prefilled_tokens": 90_000.0,
    }
    write_json(folder / "report.json", {"schema_version": 1, "stage": "profile", "name": "base", "metrics": metrics})


def _write_pool(folder: Path, arm: str) -> None:
    mu = _successes() / 8
    cut = LAMBDAS.get(arm)
    kept = np.ones(303, dtype=bool) if cut is None else (mu > 0) & (mu < 1) & (mu < cut)
    flat = ((mu == 0) | (mu == 1)) & ~kept
    reasons = {"no-variance": int(flat.sum()), "mean-too-high": int((~kept & ~flat).sum())}
    values = [n / 8 for n in range(9)]
    report = {
        "rule": "all" if cut is None else f"pivots (lambda_diff {cut})",
        "reads_profile": cut is not None,
        "candidates": 303,
        "profiled": 303,
        "kept": int(kept.sum()),
        "dropped": int((~kept).sum()),
        "dropped_by_reason": {reason: count for reason, count in reasons.items() if count},
        "mean_reward_histogram": {
            "mu": values,
            "profiled": [int((mu == v).sum()) for v in values],
            "kept": [int(((mu == v) & kept).sum()) for v in values],
        },
    }
    metrics = {
        "select/candidates": 303.0,
        "select/pool_size": float(kept.sum()),
        "select/pool_share": float(kept.mean()),
    }
    write_json(
        folder / "report.json", {"schema_version": 1, "stage": "select", "arm": arm, "metrics": metrics, **report}
    )


def _write_training(folder: Path, arm: str, seed: int) -> None:
    rng = np.random.default_rng(seed + 10)
    rows = []
    for step in range(24):
        noise = float(rng.normal(0, 0.03))
        if arm == "sft":
            rows.append({"step": step, "metrics": {"train/loss": 1.2 * 0.93**step + noise}})
            continue
        reward = 0.32 + 0.35 * (1 - np.exp(-step / 10)) + noise
        rows.append({"step": step, "metrics": {
            "train/reward_mean": float(reward), "train/zero_variance_share": float(0.15 + 0.015 * step + noise),
            "train/kl": float(max(0.0, 0.001 * step + noise / 50)), "train/entropy": 0.6 - 0.01 * step}})  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    write_jsonl(folder / "metrics.jsonl", rows)
    turns = 0.0 if arm == "sft" else 24.0 * 64
    metrics = {
        **rows[-1]["metrics"],
        "cost/rollout_turns": turns,
        "cost/generated_tokens": turns * 17,
        "cost/prefilled_tokens": turns * 40,
        "cost/trained_tokens": 60_000.0 + turns,
    }
    write_json(folder / "report.json",
               {"schema_version": 1, "stage": "train", "arm": arm, "seed": seed, "metrics": metrics})  # fmt: skip


def _write_evaluation(folder: Path, arm: str, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    difficulty = np.random.default_rng(99).uniform(-0.5, 0.5, 400)
    rng = np.random.default_rng([seed, *arm.encode()])
    episodes = pd.DataFrame([
        {"task_id": f"task-{n:03d}", "family": f"family-{n % 10}", "temperature": t, "turns": 4, "tool_errors": 0,
         "success": bool(rng.uniform() < np.clip(SKILL[arm] - 0.06 * t + 0.6 * difficulty[n], 0, 1))}
        for t in (0.0, 1.0) for n in range(100)])  # fmt: skip
    episodes.to_parquet(folder / "episodes.parquet")
    items = pd.DataFrame([
        {"benchmark": f"{name}-embedded", "item_id": f"{name}-{n}", "parsed": True,
         "answer": HOSTILE if n == 0 else f"answer {n} of {arm}", "extracted": str(n),
         "score": float(rng.uniform() < np.clip(0.45 + OOD[arm] + difficulty[n + 150], 0, 1))}
        for name in BENCHMARKS for n in range(32)])  # fmt: skip
    items.to_parquet(folder / "items.parquet")
    metrics: dict[str, Any] = {
        f"eval/{b}-embedded/score": float(rows["score"].mean())
        for b, rows in items.groupby(items["benchmark"].str.removesuffix("-embedded"))
    }
    metrics |= {f"eval/{b}-embedded/parse_failure_rate": 0.0 for b in BENCHMARKS}
    for kind, t in (("greedy", 0.0), ("t1", 1.0)):
        metrics[f"eval/helpdesk/success_{kind}"] = float(episodes[episodes["temperature"] == t]["success"].mean())
    metrics |= {
        "eval/drift/kl_neutral": KL[arm],
        "eval/drift/kl_instructions": KL[arm] / 2 + KL[arm] * seed / 50,
        "eval/drift/kl_other_turns": KL[arm] * 2,
        "eval/drift/order_agreement": 1 - KL[arm],
        "eval/drift/reference_logprob_change": None if arm == "sft" else -KL[arm],
    }
    reason = "no sandbox: bwrap is not installed"
    benchmarks = [{"name": f"{b}-embedded", "n": 0, "metric": "pass rate", "skipped": reason} for b in CODE]
    benchmarks += [{"name": f"{b}-embedded", "n": 32, "metric": "accuracy", "skipped": None} for b in BENCHMARKS]
    report = {"schema_version": 1, "stage": "evaluate", "arm": arm, "seed": seed, "domain": "helpdesk"}
    write_json(folder / "report.json", {**report, "metrics": metrics, "benchmarks": benchmarks})


def _write_timing(root: Path, stage: str, seconds: float) -> None:
    machine = {"cpu": "test cpu", "threads": 2, "python": "3.11"}
    write_json(root / "reports/timings" / f"{stage}.json",
               {"stage": stage, "seconds": seconds, "started": "2026-01-01T00:00:00Z", "machine": machine})  # fmt: skip
