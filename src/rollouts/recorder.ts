/** The record of an episode while it is played. */
import type { PolicyRef } from '../clients/policy-client.ts';
import { isCancelled } from '../core/abort.ts';
import { messagesProblem } from '../core/check-messages.ts';
import type { StopCondition, TurnFormat } from '../core/environment.ts';
import { CancelledError, PromptTooLongError, UnplayedError } from '../core/errors.ts';
import type { AskedRecord } from '../core/model.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import type { RequestFacts } from './agent-requests.ts';
import { checkedTurnReward } from './checked-turn-reward.ts';
import type { EpisodeEvent } from './episode-event.ts';
import { type Branch, type Generation, type Played, type RolloutPhase, rolloutError } from './rollout.ts';
import { callUsage, sumUsage } from './sum-usage.ts';
import type { Transcript } from './transcript.ts';

/** Records the events, and how long each phase took. */
export class Recorder {
  readonly generations: Generation[] = [];
  stop: StopCondition = 'has_error';
  prompt: Played['prompt'];
  tools: readonly ToolSpec[] = [];
  turnFormat: TurnFormat;
  state: Played['state'] = {};
  transcript: Transcript | null = null;
  /** The text to score; null if the episode did not get that far. */
  scored: Played['segments'] | null = null;
  /** Number of turns that an agent's own models wrote; null if the policy plays. */
  programTurns: number | null = null;
  /** The branches of an agent that asked the policy; null for an episode, which is one. */
  branches: readonly Branch[] | null = null;
  requests: RequestFacts = {};
  /** The part of the agent's time in which it waited for the policy. */
  policyMs = 0;
  /** The events, for the trace; null if none is kept. */
  events: EpisodeEvent[] | null = null;
  readonly #startedAtMs = Date.now();
  readonly #spentMs: Record<string, number> = {};
  #phase: RolloutPhase;
  #since = performance.now();
  #error: Played['error'] = null;
  /** The server's refusal of a prompt. */
  #refusal: PromptTooLongError | null = null;
  #cleanUpError: Played['error'] = null;

  constructor(prompt: Played['prompt'], turnFormat: TurnFormat, phase: RolloutPhase = 'setup') {
    // The file can hold only a list of messages.
    this.prompt = messagesProblem(prompt, 'prompt') === null ? prompt : [];
    this.turnFormat = turnFormat;
    this.#phase = phase;
  }

  enter(phase: RolloutPhase): void {
    const now = performance.now();
    const isSetup = this.#phase === 'lease' || (this.#phase === 'prompt' && this.generations.length === 0);
    // The time that an observation's tokens take counts as the environment's.
    const spender = isSetup ? 'setup' : this.#phase === 'prompt' ? 'environment' : this.#phase;
    this.#spentMs[spender] = (this.#spentMs[spender] ?? 0) + now - this.#since;
    this.#since = now;
    this.#phase = phase;
  }

  /** Adds an event of the last generation to the trace. */
  trace(event: string, fields: Readonly<Record<string, unknown>>): void {
    this.events?.push({ event, turn: this.generations.length - 1, atMs: Date.now(), fields });
  }

  /** Adds to the kept tokens of the last generation. */
  keepEnd(tokens: number): void {
    const last = this.generations.at(-1)!;
    if (tokens > 0) this.generations[this.generations.length - 1] = { ...last, keptTokens: (last.keptTokens ?? 0) + tokens };
  }

  /** Adds the reward of the last generation. Throws RewardError for one that is not a finite number. */
  rewardTurn(reward: number): void {
    const checked = checkedTurnReward(reward, this.generations.length);
    this.generations.push({ ...this.generations.pop()!, reward: checked });
  }

  /** Records the first failure; later ones follow from it. */
  fail(error: unknown, signal: AbortSignal): void {
    if (isCancelled(signal)) throw new CancelledError('The run was cancelled', { cause: signal.reason });
    if (this.#error !== null) return;
    const isPolicys = this.#phase === 'prompt' || this.#phase === 'generation';
    if (error instanceof PromptTooLongError && isPolicys && !signal.aborted) {
      this.stop = 'prompt_too_long';
      this.#refusal = error;
      return;
    }
    this.stop = signal.aborted ? 'timeout_reached' : 'has_error';
    this.#error = rolloutError(signal.aborted ? signal.reason : error, this.#phase);
  }

  /** Makes a rollout without a turn of the policy a failure: nothing was played that could be scored. It keeps its stop condition. */
  failUnplayed(text: (refusal: PromptTooLongError | null) => string): void {
    if (this.#error !== null || this.generations.length > 0) return;
    const cause = this.#refusal === null ? {} : { cause: this.#refusal };
    this.#error = rolloutError(new UnplayedError(text(this.#refusal), cause), 'prompt');
  }

  cleanUpFailed(error: unknown): void {
    this.#cleanUpError = rolloutError(error, 'environment');
  }

  finish(policy: PolicyRef, asked: readonly AskedRecord[]): Played {
    this.enter('scoring');
    const { turnFormat, stop, state, transcript } = this;
    const spent = this.#spentMs;
    const branches = this.#branches();
    const [{ prompt, tools } = this] = branches;
    const generations = branches.flatMap((branch) => branch.generations);
    return {
      prompt,
      tools,
      turnFormat,
      segments: this.scored ?? branches.flatMap(({ segments }) => segments),
      branches,
      cutObservations: transcript?.cutObservations ?? 0,
      isCut: transcript?.isCut ?? false,
      policy,
      state,
      generations,
      stop,
      error: this.#error,
      cleanUpError: this.#cleanUpError,
      asked,
      ...this.requests,
      // A copy, because an abandoned episode may still report.
      ...(this.events === null ? {} : { events: [...this.events] }),
      isTruncated: stop === 'prompt_too_long' || stop === 'max_total_completion_tokens_reached' || generations.some((g) => g.finish === 'length'),
      turns: this.programTurns ?? generations.length,
      usage: sumUsage(generations.map(callUsage)),
      timing: {
        startedAtMs: this.#startedAtMs,
        setupMs: spent['setup'] ?? 0,
        generationMs: (spent['generation'] ?? 0) + this.policyMs,
        environmentMs: Math.max(0, (spent['environment'] ?? 0) - this.policyMs),
        scoringMs: 0,
      },
    };
  }

  #branches(): readonly Branch[] {
    if (this.branches !== null) return this.branches;
    const { prompt, tools, generations, transcript } = this;
    const segments = this.scored ?? transcript?.segments ?? [];
    return [{ parent: null, fork: null, prompt, tools, segments, generations, tokens: transcript?.tokens ?? null }];
  }
}
