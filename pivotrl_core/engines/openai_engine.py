"""Sampling from servers that speak OpenAI's completions route (vLLM, SGLang): ids in, ids and log-probabilities out.

One HTTP request draws one sample under its own seed: vLLM gives sample i of `n` the seed `seed + i`, which would tie a
sample to those drawn beside it, and shares no more between them than between requests with one prompt. Turns of one
trajectory go to one endpoint, one after another and shortest first, so that its prefix cache holds them.

What is reproducible: a sample is decided by its prompt, its seed and the weights, whatever is drawn beside it, in
however many waves, on however many endpoints; but for near-ties, because a server batches requests as they come, and
rounding depends on the batch. So the same configuration gives the same statistics, and not always the same bits. How
many prompt tokens were computed depends on what the server's cache held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from copy import copy
from functools import partial
from queue import SimpleQueue

from pivotrl_core.engines.completions import Completions
from pivotrl_core.engines.protocol import ChatSession, More, Request, Sample, SamplingConfig, TokenCount, check_room
from pivotrl_core.engines.stems import plan_stems
from pivotrl_core.errors import ConfigError
from pivotrl_core.lanes import ONE_LANE

Drawn = tuple[Sample, TokenCount]
SAME = 1e-3  # nats within which two log-probabilities of one token are one
FINISHING_SECONDS = 5.0
FLAT = -0.05  # log-probability above which a distribution is too sharp for a temperature to show


class OpenAIEngine:
    """Implements `ChatEngine` on servers.

    Args:
        completions: how samples are asked for.
        model: the name that the servers know the weights by.
        context_tokens: longest prompt with its continuation.
        version: names what samples: the servers' program and how it computes.
        concurrency: requests in flight at once.
        refresh: called before anything is sampled; returns the name of the weights as they are then.
    """

    def __init__(
        self,
        completions: Completions,
        model: str,
        context_tokens: int,
        version: str,
        concurrency: int,
        refresh: Callable[[], str] | None = None,
    ) -> None:
        self.completions = completions
        self.model = model
        self.context_tokens = context_tokens
        self.version = version
        self.refresh = refresh
        self.lanes = ONE_LANE
        self.count = TokenCount()
        self.endpoints = len(completions.servers.endpoints)
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="completions")
        self._open: set[Future[Drawn]] = set()
        self._tempered: set[float] = {0.0, 1.0}  # temperatures whose log-probabilities are known to be right

    def sample(
        self, requests: Sequence[Request], sampling: SamplingConfig, more: More | None = None
    ) -> list[list[Sample]]:
        """One list per request, in order, with one sample per seed, or for as many seeds as `more` asks, in order.

        Raises:
            ConfigError: a state and its continuation are too long, or the servers cannot do what is asked.
            EngineError: a server refuses a request or answers nonsense.
            TemporaryError: a server cannot be reached, or is too busy for too long.
        """
        if not requests:
            return []
        check_room(self.context_tokens, max(len(one.prompt_ids) for one in requests), sampling.max_tokens)
        self._be_ready(requests[0].prompt_ids, sampling)
        waves = _Waves(self, requests, sampling, more)
        return waves.run()

    def session(self, opening: Sequence[int]) -> ChatSession:
        """A session whose conversations all begin with the ids of `opening`."""
        self._be_current()
        return ServerSession(self, opening)

    def beside(self) -> OpenAIEngine:
        """This engine with a count of its own; connections and the limit on requests stay shared."""
        engine = copy(self)
        engine.count = TokenCount()
        return engine

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Nothing to set up: the servers are always ready to sample."""
        yield

    def submit(self, prompt_ids: tuple[int, ...], seed: int, sampling: SamplingConfig, home: int) -> Future[Drawn]:
        """Let one sample be drawn, by the endpoint with this number where that is well."""
        draw = self.completions.sample
        future = self._pool.submit(draw, self.model, prompt_ids, seed, sampling, home % self.endpoints)
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        return future

    def close(self) -> None:
        """End: what is open, after an error say, has a moment to finish, and is cut off then."""
        self.completions.servers.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)
        wait(list(self._open), timeout=FINISHING_SECONDS)
        self.completions.servers.close()
        self._pool.shutdown(wait=True)

    def _be_ready(self, prompt_ids: tuple[int, ...], sampling: SamplingConfig) -> None:
        self._be_current()
        if self.completions.texts is None and sampling.temperature not in self._tempered:
            self._check_temperature(prompt_ids, sampling.temperature)
            self._tempered.add(sampling.temperature)

    def _be_current(self) -> None:
        if self.refresh is not None:
            self.model = self.refresh()

    def _check_temperature(self, prompt_ids: tuple[int, ...], temperature: float) -> None:
        """Raise ConfigError where log-probabilities are those before temperature: every ratio would be wrong."""
        for length in dict.fromkeys((1, 2, 3, 5, 8, 13, len(prompt_ids))):
            ask = partial(self.completions.likeliest, self.model, prompt_ids[:length])
            plain, tempered = ask(1.0, 0), ask(temperature, 0)
            if plain < FLAT:
                if abs(plain - tempered) < SAME:
                    raise ConfigError(
                        f"engine: at temperature {temperature} the server gives log-probabilities from before "
                        "temperature; start it with --logprobs-mode processed_logprobs, or set the temperature to 1"
                    )
                return


class _Waves:
    """One call of `sample`: each request's samples come in waves of as many as are asked for."""

    def __init__(
        self, engine: OpenAIEngine, requests: Sequence[Request], sampling: SamplingConfig, more: More | None
    ) -> None:
        self.engine, self.requests, self.sampling, self.more = engine, requests, sampling, more
        self.drawn: list[dict[int, Sample]] = [{} for _ in requests]
        self.asked = [0] * len(requests)
        self.homes = [0] * len(requests)
        self.running: dict[Future[Drawn], tuple[int, int]] = {}
        self.finished: SimpleQueue[Future[Drawn]] = SimpleQueue()

    def run(self) -> list[list[Sample]]:
        try:
            for home, (_, members) in enumerate(plan_stems(self.requests)):
                for at in reversed(members):  # the shortest first: what it leaves in the cache begins the next one
                    self.homes[at] = home
                    self._ask(at)
            while self.running:
                self._take(self.finished.get())
        finally:
            for future in self.running:
                future.cancel()
        return [self._samples(at) for at in range(len(self.requests))]

    def _ask(self, at: int) -> None:
        """Submit the next wave of a request."""
        seeds = self.requests[at].seeds
        known = len(self.drawn[at])
        wanted = len(seeds) if self.more is None else known + self.more(at, self._samples(at))
        self.asked[at] = min(wanted, len(seeds))
        for place in range(known, self.asked[at]):
            future = self.engine.submit(self.requests[at].prompt_ids, seeds[place], self.sampling, self.homes[at])
            self.running[future] = (at, place)
            future.add_done_callback(self.finished.put)

    def _take(self, future: Future[Drawn]) -> None:
        at, place = self.running.pop(future)
        self.drawn[at][place], count = future.result()
        self.engine.count.add(count)
        whole = len(self.drawn[at]) == self.asked[at]
        if self.more is not None and whole and self.asked[at] < len(self.requests[at].seeds):
            self._ask(at)

    def _samples(self, at: int) -> list[Sample]:
        return [self.drawn[at][place] for place in sorted(self.drawn[at])]


class ServerSession:
    """Implements `ChatSession`: each turn is a request with the whole conversation, and the server's cache keeps it."""

    def __init__(self, engine: OpenAIEngine, opening: Sequence[int]) -> None:
        self.engine = engine
        self.opening = tuple(opening)
        self.contexts: dict[int, tuple[int, ...]] = {}
        self.running: dict[Future[Drawn], int] = {}
        self.finished: SimpleQueue[Future[Drawn]] = SimpleQueue()

    def say(self, name: int, ids: Sequence[int], sampling: SamplingConfig, seed: int) -> None:
        """Put ids (at least one) behind conversation `name`, new or known, and let its next turn be sampled."""
        context = (*self.contexts.get(name, self.opening), *ids)
        self.contexts[name] = context
        future = self.engine.submit(context, seed, sampling, name)
        self.running[future] = name
        future.add_done_callback(self.finished.put)

    def end(self, name: int) -> None:
        """Conversation `name` is over."""
        del self.contexts[name]

    def advance(self) -> list[tuple[int, Sample]]:
        """Wait for a turn, and take with it those that are finished too, by name; empty where none was said."""
        if not self.running:
            return []
        turns = [self._take(self.finished.get())]
        while not self.finished.empty():
            turns.append(self._take(self.finished.get()))
        return sorted(turns, key=lambda turn: turn[0])

    def _take(self, future: Future[Drawn]) -> tuple[int, Sample]:
        name = self.running.pop(future)
        sample, count = future.result()
        self.engine.count.add(count)
        self.contexts[name] = (*self.contexts[name], *sample.ids)
        return name, sample
