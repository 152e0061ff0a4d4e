/** One episode that a caller plays by text, begun and stepped within this process. The answers are those of the HTTP routes, read back. */
import type { ServedRollout } from '../../../schemas/environment-server/served-rollout.ts';
import type { WireMessage } from '../../../schemas/branch-columns.ts';
import type { CallerEpisodes } from '../caller-episodes.ts';
import type { EpisodeProblem } from '../episode-problem.ts';

export interface ChatTurn {
  readonly done: false;
  /** Of the turn before; absent if the environment said nothing. */
  readonly turn_reward?: number;
  readonly turn: number;
  /** The whole conversation. */
  readonly messages: readonly WireMessage[];
  readonly tools?: readonly Readonly<Record<string, unknown>>[];
  readonly stop: readonly string[];
  readonly max_new_tokens: number | null;
}

export interface ChatEnd {
  readonly done: true;
  readonly turn_reward?: number;
  readonly rollout: ServedRollout;
}

export type ChatAnswer = ChatTurn | ChatEnd | { readonly error: EpisodeProblem };

export class ChatEpisode {
  readonly id: string;
  /** The first turn, or the end of an episode that needs no sample. */
  readonly first: Promise<ChatAnswer>;
  readonly #episodes: CallerEpisodes;

  /** Throws EnvironmentRefusal or ConfigError if none can begin. */
  constructor(episodes: CallerEpisodes, exampleId: string | number) {
    const { ids, lines } = episodes.open({ policy: { kind: 'chat' }, episodes: [{ example_id: exampleId }] });
    this.#episodes = episodes;
    this.id = ids[0]!;
    this.first = lines.then(onlyAnswer);
  }

  /** False once it has ended, was deleted or has timed out. */
  get isLive(): boolean {
    return this.#episodes.isLive(this.id);
  }

  async step(turn: number, text: string, finish: 'stop' | 'length' | null): Promise<ChatAnswer> {
    const entry = { episode_id: this.id, turn, text, ...(finish === null ? {} : { finish_reason: finish }) };
    return onlyAnswer(await this.#episodes.step([entry]));
  }

  /** Frees the episode and its kept answers. */
  end(): void {
    this.#episodes.delete(this.id);
  }
}

function onlyAnswer(lines: readonly string[]): ChatAnswer {
  return JSON.parse(lines[0]!) as ChatAnswer;
}
