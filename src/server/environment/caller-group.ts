/** Episodes of one row that callers play: the rollout loop on one side, an episode for each caller on the other. */
import { CancelledError, PolicyError, VfError } from '../../core/errors.ts';
import type { Row } from '../../core/dataset.ts';
import type { RoleModels } from '../../core/model.ts';
import { servedLine, type ServedRollout } from '../../schemas/environment-server/served-rollout.ts';
import { type CallerEpisode, turnRewardField } from './caller-episode.ts';
import type { ServedEnvironment } from './served-environment.ts';
import { lostRollout, servedRollout } from './served-rollout.ts';

export interface CallerGroupOptions {
  readonly served: ServedEnvironment;
  readonly row: Row;
  readonly groupId: string;
  /** Index of each episode among those of its row, and the episode. */
  readonly members: ReadonlyMap<number, CallerEpisode>;
  readonly kind: 'tokens' | 'chat';
  readonly models: RoleModels | null;
  readonly model: string;
  readonly version: number;
  readonly maxModelLen: number | null;
  /** As the caller samples, for the record. */
  readonly sampling: ServedRollout['sampling'];
  readonly maxTokens: number | null;
  /** Called once a member needs no further sample, and once it has ended. */
  readonly onChange: (episode: CallerEpisode) => void;
  readonly onFailure: (error: unknown) => void;
}

export class CallerGroup {
  readonly #options: CallerGroupOptions;
  readonly #stop = new AbortController();
  readonly #byKey: ReadonlyMap<string, CallerEpisode>;

  constructor(options: CallerGroupOptions) {
    this.#options = options;
    this.#byKey = new Map([...options.members].map(([index, episode]) => [`${options.row.exampleId}/${index}`, episode]));
  }

  get members(): readonly CallerEpisode[] {
    return [...this.#options.members.values()];
  }

  /** Plays to the end of every member. Never rejects. */
  async play(): Promise<void> {
    const { members, onFailure } = this.#options;
    try {
      await this.#play();
    } catch (error) {
      if (!(error instanceof CancelledError)) onFailure(error);
      for (const [index, episode] of members) if (!episode.hasEnded) this.#end(episode, this.#lost(index, error), null);
    }
  }

  /** Fails a member at its next question; the play stops with its last member. */
  discard(episode: CallerEpisode, reason: PolicyError): void {
    episode.discard(reason);
    if (this.members.every((member) => member.isDiscarded || member.hasEnded)) this.#stop.abort(new CancelledError(reason.message));
  }

  stop(reason: CancelledError): void {
    this.#stop.abort(reason);
  }

  async #play(): Promise<void> {
    const { served, row, groupId, members, kind, models, model, version, maxModelLen, sampling, maxTokens, onChange } = this.#options;
    const client = served.callerPolicy({
      kind,
      model,
      version,
      maxModelLen,
      ask: (question, { key, signal }) => this.#byKey.get(key!)!.ask(question, signal),
      onPlayed: (key) => {
        const episode = this.#byKey.get(key!)!;
        episode.isPlayed = true;
        onChange(episode);
      },
    });
    const indices = [...members.keys()];
    // Members that are scored alone end alone; a group ends with its last member.
    const played = served.scoresGroups ? [{ row, indices }] : indices.map((index) => ({ row, indices: [index] }));
    const groups = served.play(played, {
      client,
      models,
      // The caller chooses its own sampling.
      sampling: { temperature: 1, topP: 1 },
      maxTokens,
      maxConcurrent: members.size,
      // The caller saw the failure of this play, and another play would ask it again.
      maxReplays: 0,
      signal: this.#stop.signal,
    });
    for await (const { rollouts } of groups) {
      for (const rollout of rollouts) {
        const episode = members.get(rollout.index)!;
        const line = servedRollout(rollout, { groupId, capabilities: client.capabilities, sampling, redact: served.redact });
        this.#end(episode, line, rollout.generations.at(-1)?.reward ?? null);
      }
    }
  }

  /** The record of an episode that the server gave up. */
  #lost(index: number, error: unknown): ServedRollout {
    const { served, row, groupId, model, version, kind, sampling } = this.#options;
    const reason = error instanceof VfError ? error : new PolicyError('The server could not play the episode', { cause: error });
    return lostRollout({ row, index, groupId, policy: { model, version }, kind, sampling, reason, redact: served.redact });
  }

  /** @param turnReward of its last turn */
  #end(episode: CallerEpisode, rollout: ServedRollout, turnReward: number | null): void {
    const head = JSON.stringify({ episode_id: episode.id, done: true, ...turnRewardField(turnReward) }).slice(0, -1);
    episode.end(`${head},"rollout":${servedLine(rollout)}}`);
    this.#options.onChange(episode);
  }
}
