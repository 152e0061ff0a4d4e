/**
 * The one loop that plays an environment against a policy. It knows neither servers nor rewards. Whatever fails becomes data on the
 * record; only cancellation is thrown, because a cancelled rollout never happened. No wait outlives the signal but the episode's clean-up.
 */
import type { PolicyCapabilities, PolicyLease, PolicyRef, Sampling } from '../clients/policy-client.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment, Episode, StopCondition } from '../core/environment.ts';
import { CancelledError, PromptTooLongError } from '../core/errors.ts';
import type { Random } from '../core/random.ts';
import { type Generation, type Played, type RolloutPhase, rolloutError } from './rollout.ts';
import { openTranscript, type Overlong, type Transcript } from './transcript.ts';
import { isCancelled, openUntilAborted, untilAborted } from './until-aborted.ts';

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
  /** Aborted with a TimeoutError when the rollout's deadline passes, with anything else when the run is cancelled. */
  readonly signal: AbortSignal;
}

/** Plays one episode to its end. Throws CancelledError when the run is cancelled meanwhile. */
export async function playEpisode<R extends Row>(options: PlayOptions<R>): Promise<Played> {
  const { environment, row, lease, random, signal } = options;
  const record = new Recorder(row.prompt);
  try {
    const episode = await openUntilAborted(environment.start(row, { random, signal }), signal);
    try {
      await playStarted(episode, options, record).catch((error) => record.fail(error, signal));
      record.scored = await untilAborted(record.transcript?.scored() ?? [], signal);
    } catch (error) {
      record.fail(error, signal);
    } finally {
      await episode[Symbol.asyncDispose]();
    }
  } catch (error) {
    record.fail(error, signal);
  }
  return record.finish(lease.policy);
}

async function playStarted<R extends Row>(episode: Episode, options: PlayOptions<R>, record: Recorder): Promise<void> {
  const { environment, lease, capabilities, maxTokens, signal } = options;
  record.prompt = episode.prompt;
  record.state = episode.state;
  record.enter('prompt');
  const opening = openTranscript(lease, {
    prompt: episode.prompt,
    limits: environment.limits,
    capabilities,
    maxTokens,
    overlong: options.overlong ?? environment.overlong ?? 'stop',
    turnFormat: environment.turnFormat,
    signal,
  });
  const transcript = await untilAborted(opening, signal);
  record.transcript = transcript;
  record.stop = await playTurns(episode, transcript, options, record);
}

async function playTurns<R extends Row>(episode: Episode, transcript: Transcript, options: PlayOptions<R>, record: Recorder): Promise<StopCondition> {
  const { signal, sampling } = options;
  for (;;) {
    record.enter('generation');
    const maxNewTokens = transcript.room();
    if (maxNewTokens === 0) return 'prompt_too_long';
    const sample = await untilAborted(transcript.generate(maxNewTokens, { sampling, stop: episode.stop, signal }), signal);
    const kept = sample.text.slice(0, episode.keep(sample.text));
    const { tokens: keptTokens, overhang } = transcript.commit(sample, kept.length);
    record.generations.push({ finish: sample.finish, stopReason: sample.stopReason, usage: sample.usage, maxNewTokens, keptTokens, overhang });

    record.enter('environment');
    const { observation, stop } = await untilAborted(episode.step(kept, signal), signal);
    if (observation) await transcript.observe(observation);
    if (stop) return stop;
  }
}

/** Keeps what happened and how long each phase took. */
class Recorder {
  readonly generations: Generation[] = [];
  stop: StopCondition = 'has_error';
  prompt: Played['prompt'];
  state: Played['state'] = {};
  transcript: Transcript | null = null;
  /** What is scored; null when the episode did not get that far. */
  scored: Played['segments'] | null = null;
  readonly #startedAtMs = Date.now();
  readonly #spentMs: Record<string, number> = {};
  #phase: RolloutPhase = 'setup';
  #since = performance.now();
  #error: Played['error'] = null;

  constructor(prompt: Played['prompt']) {
    this.prompt = prompt;
  }

  enter(phase: RolloutPhase): void {
    const now = performance.now();
    this.#spentMs[this.#phase] = (this.#spentMs[this.#phase] ?? 0) + now - this.#since;
    this.#since = now;
    this.#phase = phase;
  }

  /** The first failure counts: a later one (of the clean-up, say) follows from it. */
  fail(error: unknown, signal: AbortSignal): void {
    if (isCancelled(signal)) throw new CancelledError('The run was cancelled', { cause: signal.reason });
    if (this.#error !== null) return;
    if (error instanceof PromptTooLongError && !signal.aborted) {
      this.stop = 'prompt_too_long';
      return;
    }
    this.stop = signal.aborted ? 'timeout_reached' : 'has_error';
    this.#error = rolloutError(signal.aborted ? signal.reason : error, this.#phase);
  }

  finish(policy: PolicyRef): Played {
    this.enter('scoring');
    const { prompt, generations, stop, state, transcript } = this;
    const spent = this.#spentMs;
    return {
      prompt,
      segments: this.scored ?? transcript?.segments ?? [],
      tokens: transcript?.tokens ?? null,
      cutObservations: transcript?.cutObservations ?? 0,
      isCut: transcript?.isCut ?? false,
      policy,
      state,
      generations,
      stop,
      error: this.#error,
      isTruncated: stop === 'prompt_too_long' || generations.some((g) => g.finish === 'length'),
      timing: {
        startedAtMs: this.#startedAtMs,
        setupMs: (spent['setup'] ?? 0) + (spent['prompt'] ?? 0),
        generationMs: spent['generation'] ?? 0,
        environmentMs: spent['environment'] ?? 0,
      },
    };
  }
}
