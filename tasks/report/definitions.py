"""What every metric means: formula, unit and healthy range. Source of the report's last section and of docs/metrics.md.

`<d>` stands for a domain, `<b>` for a benchmark, in names; r_bg is the reward of sample g of group b.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric."""

    name: str
    formula: str
    unit: str
    healthy: str


DATA = (
    Definition("data/rows_read", "rows of the training files, broken ones among them", "count", "-"),
    Definition("data/rows_kept", "rows that became a trajectory; the others are in drops.parquet", "count",
               "nearly all of rows_read"),
    Definition("data/turns", "assistant turns of the trajectories that were kept", "count", "-"),
    Definition("data/candidates", "distinct turns within the limits of length", "count", "nearly all of turns"),
)  # fmt: skip
PROFILE = (
    Definition("profile/candidates", "candidates that were profiled", "count", "-"),
    Definition(
        "profile/mean_reward",
        "mean over candidates of mu(s) = successes / K; none where some are censored",
        "share",
        "0.2 to 0.8",
    ),
    Definition("profile/all_zero_share", "share of candidates with mu = 0", "share", "below 0.4"),
    Definition("profile/all_one_share", "share of candidates with mu = 1", "share", "below 0.5"),
    Definition("profile/mixed_share", "share of candidates with 0 < mu < 1, so sigma^2 > 0", "share", "above 0.3"),
    Definition("profile/saved_share", "samples that curtailment or staging left out, of K a candidate", "share", "-"),
    Definition("profile/censored_share", "share of candidates with fewer than K samples", "share", "-"),
    Definition("profile/malformed_share", "share of samples that are no well-formed action", "share", "below 0.2"),
    Definition("profile/cut_off_share", "share of samples that reached the token limit", "share", "below 0.1"),
    Definition("profile/block_reward_mean", "mean reward of one block of trajectories, as it comes", "share", "-"),
)
SELECT = (
    Definition("select/pool_size", "candidates that the rule kept", "count", "at least 8 a step's prompts"),
    Definition("select/pool_share", "pool_size / profiled candidates", "share", "0.1 to 0.4 for pivots"),
    Definition(
        "select/message_share",
        "rows of the pool where the expert's turn is a message / pool_size",
        "share",
        "low where nothing judges messages",
    ),
    Definition("select/pool_mean_reward", "mean of mu over the pool", "share", "below lambda_diff"),
    Definition("select/lambda_diff", "the cut that was used", "share", "-"),
    Definition("select/dropped_<reason>", "candidates not in the pool, by reason", "count", "-"),
)
TRAIN = (
    Definition(
        "train/reward_mean",
        "mean of r_bg; in a training's report, over its last 5 steps",
        "share",
        "rises, then flattens",
    ),
    Definition("train/group_reward_std", "mean over groups of the population std of r_b", "reward", "above 0.1"),
    Definition(
        "train/zero_variance_share",
        "share of groups with max r_b = min r_b: no signal; in a training's report, over its last 5 steps",
        "share",
        "below 0.8",
    ),
    Definition("train/mixed_share", "share of groups with a success and a failure", "share", "above 0.2"),
    Definition(
        "train/replayed_share",
        "groups without a reward that got a success of the profile / all groups",
        "share",
        "falls",
    ),
    Definition(
        "train/demonstrated_share",
        "groups without a reward that got the expert's action / all groups",
        "share",
        "falls",
    ),
    Definition(
        "train/advantage_abs_mean", "mean of |A_bg|, A = (r - mean) / (std + eps) in its group", "-", "0.2 to 1"
    ),
    Definition("train/action_length_mean", "mean tokens of an action", "tokens", "no steady growth"),
    Definition("train/ratio_mean", "mean of pi(a|s) / pi_sampled(a|s) over trained tokens", "-", "0.98 to 1.02"),
    Definition("train/ratio_max", "largest importance ratio", "-", "below 10"),
    Definition("train/clip_low_share", "share of tokens with A < 0 and ratio < 1 - clip_low", "share", "below 0.2"),
    Definition("train/clip_high_share", "share of tokens with A > 0 and ratio > 1 + clip_high", "share", "below 0.2"),
    Definition("train/capped_share", "share of tokens whose engine weight met its cap", "share", "below 0.01"),
    Definition(
        "train/mismatch_abs_mean",
        "mean of |d| over sampled tokens, d = log pi_trainer - log pi_engine at the weights that sampled; above "
        "train.mismatch_limit the run stops",
        "nats",
        "below 0.05",
    ),
    Definition("train/mismatch_abs_max", "largest |d|", "nats", "below 1"),
    Definition("train/mismatch_ratio_mean", "mean of exp(d) over sampled tokens", "-", "0.98 to 1.02"),
    Definition(
        "train/mismatch_kl", "mean of exp(d) - 1 - d: estimate of KL(pi_engine || pi_trainer)", "nats", "below 0.01"
    ),
    Definition("train/kept_share", "1 - clip_low_share - clip_high_share", "share", "above 0.8"),
    Definition("train/entropy", "mean entropy of the policy over trained tokens", "nats", "no collapse to 0"),
    Definition(
        "train/kl",
        "mean KL estimate to the reference policy over trained tokens, where KL has a weight",
        "nats",
        "below 0.5",
    ),
    Definition(
        "train/loss",
        "SFT: mean negative log-probability of expert tokens, in nats; GRPO, E2E: the clipped "
        "surrogate with its KL and entropy terms",
        "-",
        "SFT: falls",
    ),
    Definition("train/temperature", "of this step's samples, where an arm has several", "-", "-"),
    Definition("train/round", "times that the policy has profiled again so far", "count", "-"),
    Definition(
        "train/reprofiled_<reason>",
        "1 at the first step after profiling again, by the reason for it: zero_variance, reward_flat or spread_flat",
        "-",
        "-",
    ),
    Definition(
        "train/round_pool_size", "candidates in the pool that was selected then", "count", "at least 8 a step's prompts"
    ),
    Definition("train/grad_norm", "norm of the gradient before clipping", "-", "no spikes"),
)
EVAL = (
    Definition("eval/<d>/success_greedy", "episodes whose final state and answers are right / all, greedy", "share",
               "above base"),
    Definition("eval/<d>/success_t1", "the same, sampled at temperature 1", "share", "above base"),
    Definition("eval/<d>/turns_<how>", "mean assistant turns of an episode (<how>: greedy or t1)", "turns", "-"),
    Definition("eval/<d>/malformed_<how>", "mean turns of an episode that are no well-formed action", "turns",
               "below 0.2"),
    Definition("eval/<d>/tool_errors_<how>", "mean calls of an episode that the tools refused", "calls", "below 0.5"),
    Definition("eval/turns/accuracy_greedy", "without an environment: held-out turns that the functional verifier "
               "accepts / all, greedy", "share", "above base"),
    Definition("eval/turns/accuracy_t1", "the same, sampled at temperature 1", "share", "above base"),
    Definition("eval/<b>-embedded/score", "mean score over the project's own items (not the official set)", "share",
               "not below base"),
    Definition("eval/<b>-embedded/parse_failure_rate", "answers with nothing to extract / all", "share", "below 0.2"),
    Definition("eval/ood-embedded/mean", "unweighted mean of the benchmarks' scores", "share", "not below base"),
    Definition("eval/drift/kl_neutral", "mean over tokens of KL(pi || pi_base) on neutral text", "nats", "below 0.02"),
    Definition("eval/drift/kl_instructions", "the same, on answers to instructions", "nats", "below 0.1"),
    Definition("eval/drift/kl_other_turns", "the same, on base's actions at held-out turns where its four samples "
               "differ, each distinct one once: KL at uncertain turns, none where all agree; `drift` in an "
               "evaluation's report says at how many states, with how many pairs", "nats", "below 0.1"),
    Definition("eval/drift/order_agreement", "pairs of such actions of one state that pi and base order alike / all "
               "pairs", "share", "above 0.9"),
    Definition("eval/drift/kendall_tau", "mean over such states of Kendall's tau-b of the two orders", "-1 to 1",
               "above 0.8"),
    Definition("eval/drift/reference_logprob_change",
               "mean over tokens of log pi(y) - log pi_base(y) of reference answers; confounded by style: not a "
               "measure of ability",
               "nats", "read beside KL only"),
)  # fmt: skip
COST = (
    Definition("cost/rollout_turns", "assistant turns sampled; an evaluation counts neither turns nor tokens that "
               "base samples for drift", "turns", "compare at equal success"),
    Definition("cost/generated_tokens", "tokens sampled", "tokens", "-"),
    Definition("cost/prefilled_tokens", "prompt tokens computed for sampling", "tokens", "-"),
    Definition("cost/trained_tokens", "tokens of all training passes: nodes of the packed rows, states included, each "
               "shared prefix once", "tokens", "-"),
    Definition("cost/judge_tokens", "tokens that a judge read and wrote, as its server tells them: each distinct "
               "action of a group once, answers that were kept from before too", "tokens", "0 without a judge"),
    Definition("cost/reprofiling_turns", "those of a training's rollout turns that profiled again", "turns", "-"),
    Definition("cost/profiling_turns", "rollout turns of the profiles that pools were selected from", "turns",
               "counted in every total"),
    Definition("cost/training_turns", "rollout turns of the arm's own training, without profiling again", "turns", "-"),
    Definition("cost/start_turns", "rollout turns of training the policy that the arm starts from, where this run "
               "trains it: a model of an earlier night that a nightly goes on from is charged to that night alone",
               "turns", "counted in every total"),
)  # fmt: skip
SECTIONS = {
    "Data": DATA, "Profiling": PROFILE, "Selection": SELECT, "Training": TRAIN, "Evaluation": EVAL, "Cost": COST,
}  # fmt: skip

PREFACE = """# Metrics

Names are the same in the reports, in MLflow and in the HTML report. Three notes for MLflow: a final value whose metric
also has a curve (of two steps or more) is logged as `<name>_final`, a cost carries its stage
(`cost/train_rollout_turns`), and `data/*` are metrics of the parent run. A metric that is not finite is null in a
report and NaN in MLflow, with the tag `pivotrl.not_finite`; it is never 0.

Intervals are 95 % bootstrap intervals over items and, where there are several, seeds. Differences between arms are
paired on shared items, with seeds resampled for each arm; one whose interval contains 0 is 'no difference shown'. Fewer
than 6 items that differ never show one: too often, chance alone puts them all on one side. A metric without items
(drift) shows the range over seeds. Healthy ranges are where nothing is wrong; outside is a reason to look, not a
verdict.

Limits of these intervals:

- With one seed they cover the choice of items only. With S seeds the bootstrap sees only (S - 1) / S of the variance
  between training runs, so with two or three they are too narrow; a note under the comparison says so.
- Where every item scores 0, or every item 1, no resample differs: the interval is then the exact one of Clopper and
  Pearson, 0 to 1 - 0.025^(1/N) or its mirror, with N items. Differences keep the bootstrap.
- Neither marks nor the leader are adjusted for how many arms and measures there are: of k arms in m measures, about
  0.05 k m marks show a difference by chance. With more than three arms beside base a note gives the number.
- The mean of OOD is that of the benchmarks which all arms have with all seeds. A note names one that was skipped
  somewhere, and why; `eval/ood-embedded/mean` leaves it out for every arm.
"""


def definitions_markdown() -> str:
    """The text of docs/metrics.md."""
    parts = [PREFACE]
    for title, definitions in SECTIONS.items():
        rows = [f"| `{d.name}` | {_cell(d.formula)} | {d.unit} | {d.healthy} |" for d in definitions]
        parts.append("\n".join([f"## {title}\n", "| metric | formula | unit | healthy |", "|---|---|---|---|", *rows]))
    return "\n".join(f"{part.rstrip()}\n" for part in parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
