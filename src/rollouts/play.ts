/**
 * The one loop that plays an environment against a policy. It knows neither servers nor rewards. Whatever fails becomes data on the
 * record; only cancellation is thrown, because a cancelled rollout never happened. No wait outlives the signal but the episode's clean-up.
 */
import type { PolicyCapabilities, PolicyLease, PolicyRef, Sampling } from '../clients/policy-client.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment, Episode, StopCondition, TurnFormat, TurnOptions } from '../core/environment.ts';
import { CancelledError, PromptTooLongError } from '../core/errors.ts';
import type { AskedRecord, RolloutModels } from '../core/model.ts';
import type { Random } from '../core/random.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import { type Generation, type Played, type RolloutPhase, rolloutError } from './rollout.ts';
import { openTranscript } from './open-transcript.ts';
import type { Overlong, Transcript } from './transcript.ts';
import { isCancelled, openUntilAborted, untilAborted, withinMs } from './until-aborted.ts';

const CLEAN_UP_MS = 10_000;

export interface PlayOptions<R extends Row> {
  readonly environment: Environment<R>;
  readonly row: R;
  readonly lease: PolicyLease;
  readonly capabilities: PolicyCapabilities;
  readonly sampling: Sampling;
  /** New tokens per generation; null means the environment's own limit. */
  readonly maxTokens: number | null;
  /** What to do when the context is full. @default what the environment says, else 'stop' */
  readonly overlong?: Overlong;
  readonly random: Random;
  /** The models of the environment's roles. @default none */
  readonly models?: RolloutModels;
  /** How long the episode may take to clean up once the rollout is over or stopped, in milliseconds. @default 10000 */
  readonly cleanUpMs?: number;
  /** Aborted with a TimeoutError when the rollout's deadline passes, with anything else when the run is cancelled. */
  readonly signal: AbortSignal;
}

/** Plays one episode to its end. Throws CancelledError when the run is cancelled meanwhile. */
export async function playEpisode<R extends Row>(options: PlayOptions<R>): Promise<Played> {
  const { environment, row, lease, random, models, cleanUpMs = CLEAN_UP_MS, signal } = options;
  const record = new Recorder(row.prompt, environment.turnFormat);
  try {
    const start = environment.start(row, { random, models: models?.models ?? {}, signal });
    const episode = await openUntilAborted(start, signal);
    try {
      await playStarted(episode, options, record).catch((error) => record.fail(error, signal));
      record.scored = await untilAborted(record.transcript?.scored() ?? [], signal);
    } catch (error) {
      record.fail(error, signal);
    } finally {
      // What was played counts, whatever becomes of the clean-up, and its time is not the environment's.
      record.enter('scoring');
      await withinMs(cleanUpMs, async () => episode[Symbol.asyncDispose]()).catch((error) => record.cleanUpFailed(error));
    }
  } catch (error) {
    record.fail(error, signal);
  }
  return record.finish(lease.policy, models?.asked ?? []);
}

async function playStarted<R extends Row>(episode: Episode, options: PlayOptions<R>, record: Recorder): Promise<void> {
  const { environment, lease, capabilities, maxTokens, signal } = options;
  record.prompt = episode.prompt;
  record.tools = episode.tools ?? [];
  record.turnFormat = episode.turnFormat ?? environment.turnFormat;
  record.state = episode.state;
  record.enter('prompt');
  const opening = openTranscript(lease, {
    prompt: episode.prompt,
    tools: record.tools,
    limits: episode.limits ?? environment.limits,
    capabilities,
    maxTokens,
    overlong: options.overlong ?? episode.overlong ?? environment.overlong ?? 'stop',
    turnFormat: record.turnFormat,
    tokens: episode.tokens ?? environment.tokens ?? {},
    signal,
  });
  const transcript = await untilAborted(opening, signal);
  record.transcript = transcript;
  record.stop = await playTurns(episode, transcript, options, record);
}

async function playTurns<R extends Row>(episode: Episode, transcript: Transcript, options: PlayOptions<R>, record: Recorder): Promise<StopCondition> {
  const { signal, sampling } = options;
  for (let turn: TurnOptions = {}; ;) {
    record.enter('generation');
    await transcript.openTurn(turn.prefill ?? episode.prefill);
    const maxNewTokens = transcript.room();
    if (maxNewTokens === 0) return 'prompt_too_long';
    const sample = await untilAborted(transcript.generate(maxNewTokens, { sampling, stop: turn.stop ?? episode.stop, signal }), signal);
    const kept = sample.text.slice(0, episode.keep(sample.text));
    const { tokens: keptTokens, overhang, toolCalls } = transcript.commit(sample, kept.length);
    const { finish, stopReason, usage } = sample;
    record.generations.push({ finish, stopReason, usage, maxNewTokens, keptTokens, overhang });

    record.enter('environment');
    const { observation, stop, next = {} } = await untilAborted(episode.step(kept, { finish, stopReason, toolCalls, signal }), signal);
    record.enter('prompt');
    if (observation) await transcript.observe(observation, { isLast: stop !== null });
    else if (stop !== null) record.keepEnd(transcript.end());
    if (stop !== null) return stop;
    turn = next;
  }
}

/** Keeps what happened and how long each phase took. */
class Recorder {
  readonly generations: Generation[] = [];
  stop: StopCondition = 'has_error';
  prompt: Played['prompt'];
  tools: readonly ToolSpec[] = [];
  turnFormat: TurnFormat;
  state: Played['state'] = {};
  transcript: Transcript | null = null;
  /** What is scored; null when the episode did not get that far. */
  scored: Played['segments'] | null = null;
  readonly #startedAtMs = Date.now();
  readonly #spentMs: Record<string, number> = {};
  #phase: RolloutPhase = 'setup';
  #since = performance.now();
  #error: Played['error'] = null;
  #cleanUpError: Played['error'] = null;

  constructor(prompt: Played['prompt'], turnFormat: TurnFormat) {
    this.prompt = prompt;
    this.turnFormat = turnFormat;
  }

  enter(phase: RolloutPhase): void {
    const now = performance.now();
    // Tokens of an observation are the environment's time, those of the first prompt the set-up's.
    const spender = this.#phase === 'prompt' ? (this.generations.length === 0 ? 'setup' : 'environment') : this.#phase;
    this.#spentMs[spender] = (this.#spentMs[spender] ?? 0) + now - this.#since;
    this.#since = now;
    this.#phase = phase;
  }

  /** The last generation keeps so many tokens more. */
  keepEnd(tokens: number): void {
    const last = this.generations.at(-1)!;
    if (tokens > 0) this.generations[this.generations.length - 1] = { ...last, keptTokens: (last.keptTokens ?? 0) + tokens };
  }

  /** The first failure counts: a later one follows from it. */
  fail(error: unknown, signal: AbortSignal): void {
    if (isCancelled(signal)) throw new CancelledError('The run was cancelled', { cause: signal.reason });
    if (this.#error !== null) return;
    const isPolicys = this.#phase === 'prompt' || this.#phase === 'generation';
    if (error instanceof PromptTooLongError && isPolicys && !signal.aborted) {
      this.stop = 'prompt_too_long';
      return;
    }
    this.stop = signal.aborted ? 'timeout_reached' : 'has_error';
    this.#error = rolloutError(signal.aborted ? signal.reason : error, this.#phase);
  }

  cleanUpFailed(error: unknown): void {
    this.#cleanUpError = rolloutError(error, 'environment');
  }

  finish(policy: PolicyRef, asked: readonly AskedRecord[]): Played {
    this.enter('scoring');
    const { prompt, tools, turnFormat, generations, stop, state, transcript } = this;
    const spent = this.#spentMs;
    return {
      prompt,
      tools,
      turnFormat,
      segments: this.scored ?? transcript?.segments ?? [],
      tokens: transcript?.tokens ?? null,
      cutObservations: transcript?.cutObservations ?? 0,
      isCut: transcript?.isCut ?? false,
      policy,
      state,
      generations,
      stop,
      error: this.#error,
      cleanUpError: this.#cleanUpError,
      asked,
      isTruncated: stop === 'prompt_too_long' || generations.some((g) => g.finish === 'length'),
      timing: {
        startedAtMs: this.#startedAtMs,
        setupMs: spent['setup'] ?? 0,
        generationMs: spent['generation'] ?? 0,
        environmentMs: spent['environment'] ?? 0,
      },
    };
  }
}
