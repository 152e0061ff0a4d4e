/** `scoreEpisode` of the library: the reward of an episode that a harness of your own has driven. */
import { throwIfAborted } from '../core/abort.ts';
import { checkOptions, type OptionKinds } from '../core/check-options.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment, StopCondition } from '../core/environment.ts';
import { ConfigError } from '../core/errors.ts';
import { markedText, type Message } from '../core/message.ts';
import { builtinModels, type Models } from '../core/model.ts';
import type { Score, TextSegment } from '../core/rubric.ts';
import { spelledCalls } from '../core/spelled-calls.ts';
import { isObject } from '../schemas/is-object.ts';
import { assertEpisode, assertMessages } from './assert-episode.ts';

/** The text of an episode, and its end. A `DrivenEpisode` is one. */
export interface EpisodeRecord {
  /** Everything after the prompt, in order. */
  readonly segments?: readonly TextSegment[];
  /** Instead of `segments`: the messages after the prompt. Those of the assistant are the model's. */
  readonly messages?: readonly Message[];
  /** @default the row's */
  readonly prompt?: readonly Message[];
  /** The state that the environment's reward functions read; an environment without state needs none. @default {} */
  readonly state?: Readonly<Record<string, unknown>>;
  /** Null is refused, because the episode is not over. @default 'completed' */
  readonly stop?: StopCondition | null;
}

export interface ScoreEpisodeOptions {
  /** The models of the environment's roles, such as a judge. @default its own ones, for the roles whose default is `builtin` */
  readonly models?: Models;
  /** @default never */
  readonly signal?: AbortSignal;
}

const RECORD: OptionKinds<EpisodeRecord> = { segments: 'any', messages: 'any', prompt: 'any', state: 'table', stop: 'any' };

/**
 * Computes the reward and the metrics of an episode, with the environment's `finish` hook and rubric. Group rewards see a group of one.
 *
 * Rejects with RewardError if a reward cannot be computed, instead of giving 0, and with ConfigError if the episode is not over.
 * @example
 * const row = environment.eval.at(0);
 * const { reward, metrics } = await scoreEpisode(environment, row, { messages: [{ role: 'assistant', content: 'Paris' }] });
 */
export async function scoreEpisode<R extends Row>(
  environment: Environment<R>,
  row: R,
  episode: EpisodeRecord,
  options: ScoreEpisodeOptions = {},
): Promise<Score> {
  checkOptions('scoreEpisode', options, { models: 'table', signal: 'signal' });
  const { signal = new AbortController().signal } = options;
  throwIfAborted(signal, 'Stopped before the episode was scored');
  assertEpisode('scoreEpisode', environment, row);
  // A DrivenEpisode has more than a record.
  if (!isObject(episode) || !('step' in episode)) checkOptions('An episode to score', episode, RECORD);
  const { segments, messages, prompt = row.prompt, state = {}, stop = 'completed' } = episode;
  if (stop === null) throw new ConfigError('The episode is not over, so it has no reward. Step it until its stop is no longer null.');
  if (typeof stop !== 'string') throw new ConfigError(`The stop of an episode must be a string such as 'completed', got ${JSON.stringify(stop)}`);
  if (segments === undefined && messages !== undefined) assertMessages(messages);
  const said = segments ?? messages?.map(segmentOf);
  if (said === undefined) throw new ConfigError('An episode to score needs segments, or the messages after its prompt');
  const { scoreAlone } = await import('../rollouts/score-alone.ts');
  const models = { ...builtinModels(environment.roles), ...options.models };
  return scoreAlone(environment, { row, prompt, segments: said, stop, state, models, signal });
}

function segmentOf(message: Message): TextSegment {
  const { toolCalls = [] } = message;
  const isPlain = typeof message.content === 'string' && message.role !== 'tool' && toolCalls.length === 0;
  const kind = message.role === 'assistant' ? 'model' : 'observation';
  return { kind, text: spelledCalls(markedText(message.content), toolCalls), ...(isPlain ? {} : { messages: [message] }) };
}
