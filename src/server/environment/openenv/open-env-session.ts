/** An environment in OpenEnv's sense: reset begins an episode, step takes an action in it, state describes its progress. One episode at a time. */
import type { EpisodeStateColumns, ResetAnswer, ResetData, StepAnswer } from '../../../schemas/environment-server/openenv.ts';
import type { ServedRollout } from '../../../schemas/environment-server/served-rollout.ts';
import type { WireMessage } from '../../../schemas/branch-columns.ts';
import type { CallerEpisodes } from '../caller-episodes.ts';
import { EnvironmentRefusal } from '../environment-refusal.ts';
import type { ServedEnvironment } from '../served-environment.ts';
import { type ChatAnswer, ChatEpisode, type ChatEnd, type ChatTurn } from './chat-episode.ts';
import type { RowOrder } from './row-order.ts';
import { textAction } from './text-action.ts';
import { WireError } from './wire-error.ts';

export interface OpenEnvSessionOptions {
  readonly served: ServedEnvironment;
  readonly episodes: CallerEpisodes;
  readonly order: RowOrder;
}

/** An episode and its progress. */
interface Play {
  readonly episode: ChatEpisode;
  /** The caller's name for it. */
  readonly id: string;
  readonly exampleId: string | number;
  steps: number;
  /** The turn that waits for an action; null while none does. */
  turn: number | null;
  hasEnded: boolean;
}

type Position = Pick<ResetAnswer, 'reward' | 'done' | 'metadata'>;

const AGAIN = 'Send reset to begin a new episode.';

export class OpenEnvSession {
  readonly #options: OpenEnvSessionOptions;
  #play: Play | null = null;
  #isClosed = false;

  constructor(options: OpenEnvSessionOptions) {
    this.#options = options;
  }

  /** The caller's name for the episode; null before the first reset. */
  get episodeId(): string | null {
    return this.#play?.id ?? null;
  }

  /** True also of an episode that the server gave up because no action came in time. */
  get hasEnded(): boolean {
    return this.#play === null || this.#play.hasEnded || !this.#play.episode.isLive;
  }

  get state(): EpisodeStateColumns {
    const play = this.#play;
    if (play === null) return { episode_id: null, step_count: 0 };
    return { episode_id: play.id, step_count: play.steps, example_id: play.exampleId, done: this.hasEnded };
  }

  /** Begins an episode; one that is being played ends without a record. Throws WireError, EnvironmentRefusal or ConfigError. */
  async reset(data: ResetData): Promise<ResetAnswer> {
    if (this.#isClosed) throw new WireError('SESSION_ERROR', 'The session is closed. Open a new one.');
    const { episodes, order } = this.#options;
    const exampleId = order.pick(data);
    this.#end();
    const episode = new ChatEpisode(episodes, exampleId);
    order.begun(data);
    const id = data.episode_id ?? episode.id;
    const play: Play = { episode, id, exampleId, steps: 0, turn: null, hasEnded: false };
    this.#play = play;
    const answer = await this.#answerOf(play, episode.first);
    if (answer.done) {
      const prompt = [...(answer.rollout.messages ?? [])];
      return { observation: { prompt, text: '', stop: [], ...endOf(answer.rollout) }, ...positionOf(play, answer) };
    }
    const { messages, tools, stop } = answer;
    const prompt = [...messages];
    const observation = { prompt, text: '', stop: [...stop], ...NOT_ENDED, ...(tools === undefined ? {} : { tools: [...tools] }) };
    return { observation, ...positionOf(play, answer) };
  }

  /** Takes an action. Throws WireError if there is no episode, the action is invalid, or the episode failed; EnvironmentRefusal while another action is played. */
  async step(action: unknown): Promise<StepAnswer> {
    const { text, finish } = textAction(action);
    const play = this.#play;
    if (play === null) throw new WireError('EXECUTION_ERROR', 'No episode has begun in this session. Send reset first.');
    if (play.hasEnded) throw new WireError('EXECUTION_ERROR', `The episode has ended. ${AGAIN}`);
    const { turn } = play;
    if (turn === null) throw new EnvironmentRefusal(409, 'The action before is still being played. Wait for its answer.');
    play.turn = null;
    play.steps += 1;
    const answer = await this.#answerOf(play, play.episode.step(turn, text, finish));
    const { kept, added } = lastTurn((answer.done ? answer.rollout.messages : answer.messages) ?? []);
    const { metadata, ...position } = positionOf(play, answer);
    const observation = { text: added, ...(answer.done ? { stop: [], ...endOf(answer.rollout) } : { stop: [...answer.stop], ...NOT_ENDED }) };
    return { observation, ...position, metadata: { ...metadata, kept } };
  }

  /** Frees the episode in any state. */
  close(): void {
    this.#isClosed = true;
    this.#end();
  }

  async #answerOf(play: Play, asked: Promise<ChatAnswer>): Promise<ChatTurn | ChatEnd> {
    const answer = await asked;
    if ('error' in answer) {
      endPlay(play);
      const { type, message } = answer.error;
      if (type === 'StepTimeoutError') {
        throw new WireError('EXECUTION_ERROR', `${message.replace(' Repeat this entry to wait on.', '')} The episode was given up. ${AGAIN}`);
      }
      if (type === 'UnknownEpisodeError') {
        throw new WireError('EXECUTION_ERROR', `The episode is gone: no action came within the time of --idle-timeout. ${AGAIN}`);
      }
      throw new WireError('EXECUTION_ERROR', `${type}: ${message}`);
    }
    if (!answer.done) {
      play.turn = answer.turn;
      return answer;
    }
    endPlay(play);
    const { error } = answer.rollout;
    if (error !== null)
      throw new WireError('EXECUTION_ERROR', `${error.type}: ${error.message.replace(/\.$/, '')}. The episode failed and has no reward. ${AGAIN}`);
    return answer;
  }

  #end(): void {
    if (this.#play !== null) endPlay(this.#play);
  }
}

const NOT_ENDED = { stop_condition: null, metrics: {} } as const;

function endPlay(play: Play): void {
  play.hasEnded = true;
  play.turn = null;
  play.episode.end();
}

function endOf({ stop_condition, metrics }: ServedRollout) {
  return { stop_condition, metrics };
}

/** Of a step: the reward that the environment gave the turn, and in the last step that of the rollout too, so that all of them add up. Null if it gave none. */
function stepReward(answer: ChatTurn | ChatEnd): number | null {
  const { turn_reward: ofTurn = null } = answer;
  if (!answer.done) return ofTurn;
  const { reward } = answer.rollout;
  return reward === null ? null : reward + (ofTurn ?? 0);
}

function positionOf({ id, exampleId }: Play, answer: ChatTurn | ChatEnd): Position {
  return {
    reward: stepReward(answer),
    done: answer.done,
    metadata: { episode_id: id, example_id: exampleId, max_new_tokens: answer.done ? null : answer.max_new_tokens },
  };
}

/** The policy's last text, and everything after it. */
function lastTurn(messages: readonly WireMessage[]): { readonly kept: string; readonly added: string } {
  const last = messages.findLastIndex(({ role }) => role === 'assistant');
  const after = messages.slice(last + 1).map(({ content }) => content);
  return { kept: messages[last]?.content ?? '', added: after.join('\n') };
}
