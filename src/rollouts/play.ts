/**
 * The loop that plays an environment against a policy. It knows neither servers nor rewards. A failure becomes data on the record; only cancellation
 * is thrown, because a cancelled rollout is not recorded. No wait outlives the signal except the episode's clean-up.
 */
import type { PolicyCapabilities, PolicyLease, Sampling } from '../clients/policy-client.ts';
import { openUntilAborted, untilAborted } from '../core/abort.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment, Episode, StopCondition, TurnOptions } from '../core/environment.ts';
import type { RolloutModels } from '../core/model.ts';
import type { Random } from '../core/random.ts';
import { templateVariables } from '../core/sampling.ts';
import { CLEAN_UP_MS } from '../core/timers.ts';
import { readsThoughts } from '../core/reads-thoughts.ts';
import { checkedEpisode } from './checked-episode.ts';
import { checkedKeep, checkedStep } from './checked-step.ts';
import { playersOf } from './builtin-players.ts';
import { withinMs } from './deadline.ts';
import { ChatTranscript } from './chat-transcript.ts';
import { ContinuationTranscript, CutTranscript } from './continuation-transcript.ts';
import { ConversationTranscript } from './conversation-transcript.ts';
import { Recorder } from './recorder.ts';
import type { Played } from './rollout.ts';
import type { Overlong, Transcript, TranscriptOptions } from './transcript.ts';
import { unplayedText } from './unplayed-text.ts';

export interface PlayOptions<R extends Row> {
  readonly environment: Environment<R>;
  readonly row: R;
  readonly lease: PolicyLease;
  readonly capabilities: PolicyCapabilities;
  readonly sampling: Sampling;
  /** New tokens per generation; null means the environment's own limit. */
  readonly maxTokens: number | null;
  /** The way to treat a full context. @default the environment's own, else 'stop' */
  readonly overlong?: Overlong;
  readonly random: Random;
  /** The models of the environment's roles. @default its own ones, for the roles whose default is `builtin` */
  readonly models?: RolloutModels;
  /** The time that the episode may take to clean up once the rollout is over or stopped, in milliseconds. @default 10000 */
  readonly cleanUpMs?: number;
  /** Aborted with a TimeoutError when the rollout's deadline passes, with anything else when the run is cancelled. */
  readonly signal: AbortSignal;
}

/** Plays one episode to its end. Throws CancelledError when the run is cancelled meanwhile. */
export async function playEpisode<R extends Row>(options: PlayOptions<R>): Promise<Played> {
  const { environment, row, lease, capabilities, random, cleanUpMs = CLEAN_UP_MS, signal } = options;
  const { models, asked } = playersOf(environment.roles, options.models);
  const record = new Recorder(row.prompt, environment.turnFormat);
  if (environment.traces === true) record.events = [];
  try {
    const start = environment.start(row, { random, models, imageSizes: capabilities.imageTokens ?? null, signal });
    const episode = await openUntilAborted(start, signal);
    try {
      await playStarted(episode, options, record).catch((error) => record.fail(error, signal));
      record.scored = await untilAborted(record.transcript?.scored() ?? [], signal);
    } catch (error) {
      record.fail(error, signal);
    } finally {
      // A failed clean-up does not discard the rollout, and its time is not the environment's.
      record.enter('scoring');
      await withinMs(cleanUpMs, async () => episode[Symbol.asyncDispose]()).catch((error) => record.cleanUpFailed(error));
    }
  } catch (error) {
    record.fail(error, signal);
  }
  const { transcript } = record;
  const { limitArguments = {} } = environment;
  record.failUnplayed((refusal) => unplayedText({ refusal, transcript, limitArguments, policy: capabilities }));
  return record.finish(lease.policy, asked);
}

async function playStarted<R extends Row>(episode: Episode, options: PlayOptions<R>, record: Recorder): Promise<void> {
  const { environment, row, lease, capabilities, maxTokens, signal } = options;
  checkedEpisode(episode);
  record.prompt = episode.prompt;
  record.tools = episode.tools ?? [];
  record.turnFormat = episode.turnFormat ?? environment.turnFormat;
  record.state = episode.state;
  record.enter('prompt');
  const opening = openTranscript(lease, {
    prompt: episode.prompt,
    tools: record.tools,
    variables: templateVariables(options.sampling),
    limits: episode.limits ?? environment.limits,
    capabilities,
    maxTokens,
    overlong: options.overlong ?? episode.overlong ?? environment.overlong ?? 'stop',
    turnFormat: record.turnFormat,
    tokens: episode.tokens ?? environment.tokens ?? {},
    readsThoughts: readsThoughts(environment.rubric, row),
    signal,
  });
  const transcript = await untilAborted(opening, signal);
  record.transcript = transcript;
  record.stop = await playTurns(episode, transcript, options, record);
}

async function playTurns<R extends Row>(episode: Episode, transcript: Transcript, options: PlayOptions<R>, record: Recorder): Promise<StopCondition> {
  const { lease, signal, sampling, capabilities } = options;
  const { completionTokens = Infinity } = episode.limits ?? options.environment.limits;
  const trace = record.events === null ? {} : { trace: record.trace.bind(record) };
  let left = completionTokens * (capabilities.lengthScale ?? 1);
  for (let turn: TurnOptions = {}; ;) {
    record.enter('generation');
    if (left <= 0) return 'max_total_completion_tokens_reached';
    await transcript.openTurn(turn.prefill ?? episode.prefill);
    const room = transcript.room();
    if (room === 0) return 'prompt_too_long';
    const maxNewTokens = Number.isFinite(left) ? Math.min(room ?? Infinity, left) : room;
    const sample = await untilAborted(transcript.generate(maxNewTokens, { sampling, stop: turn.stop ?? episode.stop, signal }), signal);
    // Errors thrown by the environment's code are not the policy's failure.
    record.enter('environment');
    // As if the policy had written what its template put at the beginning of its turn: upstream scores the whole turn.
    const { opening } = transcript;
    const opened = opening === '' ? {} : { opening };
    const turnText = opening + sample.text;
    const kept = turnText.slice(0, Math.max(opening.length, checkedKeep(episode.keep(turnText))));
    record.enter('generation');
    const { tokens: keptTokens, overhang, toolCalls, stop: end } = transcript.commit(sample, kept.length - opening.length);
    const { finish, stopReason, usage, stopIsGuess = false, stopWasIgnored = false } = sample;
    left -= keptTokens ?? usage.completionTokens;
    const doubts = { ...(stopIsGuess ? { stopIsGuess } : {}), ...(stopWasIgnored ? { stopWasIgnored } : {}) };
    record.generations.push({ finish, stopReason, usage, maxNewTokens, keptTokens, overhang, ...opened, ...doubts });
    record.trace('model.turn', { text: kept, finish, tokens: keptTokens ?? usage.completionTokens });
    if (end !== undefined) return end;

    record.enter('environment');
    const step = await untilAborted(episode.step(kept, { finish, stopReason, toolCalls, ...opened, ...trace, signal }), signal);
    const { observation, stop, next = {}, reward } = checkedStep(step);
    if (reward !== undefined) record.rewardTurn(reward);
    lease.onTurnReward?.(reward ?? null);
    record.enter('prompt');
    if (observation) await transcript.observe(observation, { isLast: stop !== null });
    else if (stop !== null) record.keepEnd(transcript.end());
    if (stop !== null) return stop;
    turn = next;
  }
}

/** The transcript for this policy and turn format, with the first prompt rendered. */
async function openTranscript(lease: PolicyLease, options: TranscriptOptions): Promise<Transcript> {
  if (lease.kind === 'chat') return new ChatTranscript(lease, options);
  if (options.turnFormat === 'chat') return ConversationTranscript.open(lease, options);
  return options.overlong === 'upstream' ? CutTranscript.open(lease, options) : ContinuationTranscript.open(lease, options);
}
