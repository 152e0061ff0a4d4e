/**
 * The one loop that plays an environment against a policy. It knows neither servers nor rewards. Whatever fails becomes data on the
 * record; only cancellation is thrown, because a cancelled rollout never happened.
 */
import type { PolicyCapabilities, PolicyLease, Sampling } from '../clients/policy-client.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment, Episode, StopCondition } from '../core/environment.ts';
import { CancelledError, PromptTooLongError, TimeoutError } from '../core/errors.ts';
import type { Random } from '../core/random.ts';
import { type Generation, type Played, type RolloutPhase, rolloutError } from './rollout.ts';
import { openTranscript, type Overlong, type Transcript } from './transcript.ts';

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
  const record = new Recorder();
  let episode: Episode | undefined;
  let transcript: Transcript | undefined;
  try {
    episode = await options.environment.start(options.row, { random: options.random, signal: options.signal });
    record.enter('prompt');
    transcript = await openTranscript(options.lease, {
      prompt: episode.prompt,
      limits: options.environment.limits,
      capabilities: options.capabilities,
      maxTokens: options.maxTokens,
      overlong: options.overlong ?? options.environment.overlong ?? 'stop',
      turnFormat: options.environment.turnFormat,
    });
    record.stop = await playTurns(episode, transcript, options, record);
  } catch (error) {
    record.fail(error, options.signal);
  } finally {
    await episode?.[Symbol.asyncDispose]();
  }
  return {
    segments: (await transcript?.scored()) ?? [],
    tokens: transcript?.tokens ?? null,
    cutObservations: transcript?.cutObservations ?? 0,
    isCut: transcript?.isCut ?? false,
    policy: options.lease.policy,
    state: episode?.state ?? {},
    ...record.finish(),
  };
}

async function playTurns<R extends Row>(episode: Episode, transcript: Transcript, options: PlayOptions<R>, record: Recorder): Promise<StopCondition> {
  const { signal, sampling } = options;
  for (;;) {
    record.enter('generation');
    signal.throwIfAborted();
    const maxNewTokens = transcript.room();
    if (maxNewTokens === 0) return 'prompt_too_long';
    const sample = await transcript.generate(maxNewTokens, { sampling, stop: episode.stop, signal });
    const kept = sample.text.slice(0, episode.keep(sample.text));
    const { tokens: keptTokens, overhang } = transcript.commit(sample, kept.length);
    record.generations.push({ finish: sample.finish, stopReason: sample.stopReason, usage: sample.usage, maxNewTokens, keptTokens, overhang });

    record.enter('environment');
    const { observation, stop } = await episode.step(kept, signal);
    if (observation) await transcript.observe(observation);
    if (stop) return stop;
  }
}

/** Keeps what happened and how long each phase took. */
class Recorder {
  readonly generations: Generation[] = [];
  stop: StopCondition = 'has_error';
  readonly #startedAtMs = Date.now();
  readonly #spentMs: Record<string, number> = {};
  #phase: RolloutPhase = 'setup';
  #since = performance.now();
  #error: Played['error'] = null;

  enter(phase: RolloutPhase): void {
    const now = performance.now();
    this.#spentMs[this.#phase] = (this.#spentMs[this.#phase] ?? 0) + now - this.#since;
    this.#since = now;
    this.#phase = phase;
  }

  fail(error: unknown, signal: AbortSignal): void {
    if (error instanceof PromptTooLongError) {
      this.stop = 'prompt_too_long';
      return;
    }
    if (signal.aborted && !(signal.reason instanceof TimeoutError)) {
      throw new CancelledError('The run was cancelled', { cause: signal.reason });
    }
    this.stop = signal.aborted ? 'timeout_reached' : 'has_error';
    this.#error = rolloutError(signal.aborted ? signal.reason : error, this.#phase);
  }

  finish(): Pick<Played, 'generations' | 'stop' | 'error' | 'isTruncated' | 'timing'> {
    this.enter('scoring');
    const spent = this.#spentMs;
    return {
      generations: this.generations,
      stop: this.stop,
      error: this.#error,
      isTruncated: this.stop === 'prompt_too_long' || this.generations.some((g) => g.finish === 'length'),
      timing: {
        startedAtMs: this.#startedAtMs,
        setupMs: (spent['setup'] ?? 0) + (spent['prompt'] ?? 0),
        generationMs: spent['generation'] ?? 0,
        environmentMs: spent['environment'] ?? 0,
      },
    };
  }
}
