/** Episodes that a harness of your own drives: the harness calls its model, and the environment answers. */
import { checkOptions } from '../core/check-options.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment, StopCondition } from '../core/environment.ts';
import type { Message } from '../core/message.ts';
import { builtinModels, type Models } from '../core/model.ts';
import type { TextSegment } from '../core/rubric.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import { assertEpisode } from './assert-episode.ts';

export interface StartEpisodeOptions {
  /** Seeds the episode's own random numbers. @default 0 */
  readonly seed?: number;
  /** The models of the environment's roles. @default its own ones, for the roles whose default is `builtin` */
  readonly models?: Models;
  /** Cancels the start and every step. @default never */
  readonly signal?: AbortSignal;
}

/** An episode between two turns of the model. Dispose it when it is over. */
export interface DrivenEpisode extends AsyncDisposable {
  readonly prompt: readonly Message[];
  /** The whole conversation so far, with the prompt: the next input of the model. */
  readonly messages: readonly Message[];
  /** The tools to offer the model natively. */
  readonly tools: readonly ToolSpec[];
  /** Strings that should end the model's turn; they stay in the text. */
  readonly stopStrings: readonly string[];
  /** Everything after the prompt, in the form that reward functions read. */
  readonly segments: readonly TextSegment[];
  /** The environment's state for reward functions. */
  readonly state: Readonly<Record<string, unknown>>;
  /** The reason why the episode is over; null while it goes on. */
  readonly stop: StopCondition | null;
  /** What the environment said that each turn was worth by itself; null where it said nothing. They are not part of the episode's reward. [turns so far] */
  readonly turnRewards: readonly (number | null)[];
  /**
   * Gives the model's turn to the environment: its text, or an assistant message with `toolCalls` of `{ id, name, arguments }`, where `arguments` is the JSON
   * text that the model wrote. Rejects with EnvironmentError once the episode is over.
   */
  step(reply: string | Message): Promise<void>;
}

/**
 * Starts an episode of one row for a harness that asks a model itself.
 * @example
 * await using episode = await startEpisode(environment, environment.eval.at(0));
 * while (episode.stop === null) await episode.step(await ask(episode.messages, episode.tools));
 * const { reward } = await scoreEpisode(environment, environment.eval.at(0), episode);
 */
export async function startEpisode<R extends Row>(environment: Environment<R>, row: R, options: StartEpisodeOptions = {}): Promise<DrivenEpisode> {
  checkOptions('startEpisode', options, { seed: 'count', models: 'table', signal: 'signal' });
  assertEpisode('startEpisode', environment, row);
  const { driveEpisode } = await import('../rollouts/drive-episode.ts');
  const { seed = 0, signal = new AbortController().signal } = options;
  const models = { ...builtinModels(environment.roles), ...options.models };
  return driveEpisode(environment, row, { seed, models, signal });
}
