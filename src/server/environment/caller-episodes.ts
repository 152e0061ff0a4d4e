/** The episodes that callers play: begins them, takes their steps, and forgets abandoned ones. */
import { randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { CancelledError, PolicyError } from '../../core/errors.ts';
import { assertPlayable } from '../../rollouts/assert-playable.ts';
import type { EpisodesRequest } from '../../schemas/environment-server/episode-requests.ts';
import { parseStep } from '../../schemas/environment-server/parse-step.ts';
import { callerSamplingColumns } from '../../schemas/sampling-columns.ts';
import type { HeldBytes } from '../held-bytes.ts';
import { CallerEpisode, sampleBytes } from './caller-episode.ts';
import { CallerGroup } from './caller-group.ts';
import { EnvironmentRefusal } from './environment-refusal.ts';
import { type EpisodeProblem, problemLine, problemOf } from './episode-problem.ts';
import { PacedTurns } from './paced-turns.ts';
import { plannedGroups } from './planned-groups.ts';
import type { ServedEnvironment } from './served-environment.ts';
import { StepBatch } from './step-batch.ts';

export interface CallerEpisodesOptions {
  readonly served: ServedEnvironment;
  /** Episodes that have not ended, at most. */
  readonly maxSessions: number;
  /** The time for which an episode waits for its caller, and for which its answers are kept after its end, in milliseconds. */
  readonly idleTimeoutMs: number;
  /** The time for which a request waits for an answer, in milliseconds. */
  readonly stepTimeoutMs: number;
  /** The account of everything that the server holds. */
  readonly held: HeldBytes;
  readonly onFailure: (error: unknown) => void;
}

export interface OpenedEpisodes {
  readonly ids: readonly string[];
  /** The first turn of each. */
  readonly lines: Promise<readonly string[]>;
}

/** Bytes of answers that are kept of episodes that have ended. */
const KEPT_BYTES = 128 * 2 ** 20;

interface Seat {
  readonly episode: CallerEpisode;
  readonly group: CallerGroup;
}

export class CallerEpisodes {
  readonly #options: CallerEpisodesOptions;
  readonly #live = new Map<string, Seat>();
  /** Groups whose members are scored together and have not all ended. */
  readonly #groups = new Map<string, CallerGroup>();
  readonly #ended: LRUCache<string, CallerEpisode>;
  readonly #batches = new Set<StepBatch>();
  readonly #plays = new Set<Promise<void>>();
  readonly #starts = new PacedTurns();
  readonly #reaper: NodeJS.Timeout;

  constructor(options: CallerEpisodesOptions) {
    this.#options = options;
    const { maxSessions, idleTimeoutMs } = options;
    this.#ended = new LRUCache({
      max: 4 * maxSessions,
      maxSize: KEPT_BYTES,
      sizeCalculation: (episode) => episode.size + 1,
      dispose: (episode) => episode.release(),
      ttl: idleTimeoutMs,
    });
    options.held.onFull(() => this.#ended.pop() !== undefined);
    this.#reaper = setInterval(() => this.#reap(), Math.min(30_000, Math.max(20, idleTimeoutMs / 4)));
    this.#reaper.unref();
  }

  /** Episodes that have not ended. */
  get live(): number {
    return this.#live.size;
  }

  /** False once it has ended, was deleted or has timed out. */
  isLive(episodeId: string): boolean {
    return this.#live.has(episodeId);
  }

  /** Begins episodes and resolves with a line of JSON for each: its first turn. Nothing begins if one of them cannot. */
  async begin(request: EpisodesRequest): Promise<readonly string[]> {
    return this.open(request).lines;
  }

  /** As `begin`, with the ids at once, so that an episode can be deleted before its first turn is there. */
  open(request: EpisodesRequest): OpenedEpisodes {
    const { served, maxSessions } = this.#options;
    const { kind, model = 'caller', version = 0, max_model_len: maxModelLen = null } = request.policy;
    if (kind === 'tokens' && served.tokenizer === null) {
      throw new EnvironmentRefusal(
        422,
        'The server has no tokenizer, so it cannot play by token ids. Start it with --tokenizer DIR, or play in chat kind.',
      );
    }
    const policy = { model, version, maxModelLen, kind } as const;
    assertPlayable(
      served.environment,
      served.callerPolicy({ ...policy, ask: () => Promise.reject(new PolicyError('Not asked')), onPlayed: () => {} }),
    );
    const models = served.callerModels();
    const planned = plannedGroups(request.episodes, served, this.#groups);
    if (this.#live.size + request.episodes.length > maxSessions) {
      throw new EnvironmentRefusal(
        503,
        `${this.#live.size} of ${maxSessions} episodes are open (--max-sessions). Finish or delete some, then try again.`,
      );
    }
    const sampling = callerSamplingColumns(request.sampling ?? {});
    // Every line of an episode repeats them.
    const startBytes = 4 * (sampling.extra.length + model.length);
    this.#makeRoom(request.episodes.length * startBytes);
    const vocabularySize = kind === 'tokens' ? served.tokenizer!.tokenizer.vocabularySize : null;
    const common = { kind, vocabularySize, startBytes, onBytes: (change: number) => this.#options.held.hold(change) };
    const episodes: CallerEpisode[] = [];
    for (const { row, groupId, places } of planned) {
      const members = new Map<number, CallerEpisode>();
      const together = served.scoresGroups && places.length > 1 ? Symbol(groupId) : null;
      for (const { place, index } of places) {
        const episode = new CallerEpisode({ ...common, id: randomUUID(), groupId, together });
        members.set(index, episode);
        episodes[place] = episode;
      }
      this.#start(
        new CallerGroup({
          ...policy,
          served,
          row,
          groupId,
          members,
          models,
          sampling,
          maxTokens: request.max_new_tokens ?? null,
          onChange: (episode) => this.#changed(episode),
          onFailure: this.#options.onFailure,
        }),
      );
    }
    const lines = this.#answers(episodes.map((episode) => ({ episode, answer: episode.current() })));
    return { ids: episodes.map(({ id }) => id), lines };
  }

  /** Takes a step of each entry and resolves with a line of JSON for each, in order. */
  async step(entries: readonly unknown[]): Promise<readonly string[]> {
    const steps = entries.map(parseStep);
    // As a sample, and in the conversation.
    this.#makeRoom(2 * steps.reduce((sum, step) => sum + (step.ok && step.sample !== null ? sampleBytes(step.sample) : 0), 0));
    const answers = steps.map((parsed) => {
      if (!parsed.ok) return { problem: problemOf('SampleError', parsed.problem), episodeId: parsed.episodeId };
      const { episodeId, sample } = parsed;
      const episode = this.#find(episodeId);
      if (episode === null) return { problem: unknownEpisode(episodeId), episodeId };
      const answer = sample === null ? episode.current() : episode.step(sample);
      return 'type' in answer ? { problem: answer, episodeId } : { episode, answer };
    });
    return this.#answers(answers);
  }

  /** Ends an episode without a record. False if there is none. */
  delete(episodeId: string): boolean {
    const seat = this.#live.get(episodeId);
    if (seat === undefined) return this.#ended.delete(episodeId);
    this.#discard(seat, 'The caller deleted the episode');
    return true;
  }

  async close(): Promise<void> {
    clearInterval(this.#reaper);
    for (const group of new Set([...this.#live.values()].map((seat) => seat.group))) group.stop(new CancelledError('The server is stopping'));
    await Promise.all(this.#plays);
  }

  /** Throws EnvironmentRefusal if there is no room, before anything was taken. */
  #makeRoom(bytes: number): void {
    const { held } = this.#options;
    if (held.makeRoom(bytes)) return;
    throw new EnvironmentRefusal(503, `${held.fullText}. Finish or delete episodes, then send the same request again.`);
  }

  #start(group: CallerGroup): void {
    for (const episode of group.members) this.#live.set(episode.id, { episode, group });
    if (this.#options.served.scoresGroups) this.#groups.set(group.members[0]!.groupId, group);
    const play = this.#play(group).finally(() => {
      this.#plays.delete(play);
      const { groupId } = group.members[0]!;
      if (this.#groups.get(groupId) === group) this.#groups.delete(groupId);
    });
    this.#plays.add(play);
  }

  async #play(group: CallerGroup): Promise<void> {
    await this.#starts.next();
    await group.play();
  }

  #changed(episode: CallerEpisode): void {
    if (episode.hasEnded && this.#live.delete(episode.id) && !episode.isDiscarded) {
      this.#ended.set(episode.id, episode);
      // One that is too large for it is not kept.
      if (this.#ended.peek(episode.id) === undefined) episode.release();
    }
    for (const batch of this.#batches) batch.review();
  }

  #find(episodeId: string): CallerEpisode | null {
    return this.#live.get(episodeId)?.episode ?? this.#ended.get(episodeId) ?? null;
  }

  async #answers(
    entries: readonly (
      | { readonly episode: CallerEpisode; readonly answer: Promise<string> }
      | { readonly problem: EpisodeProblem; readonly episodeId: string | null }
    )[],
  ): Promise<readonly string[]> {
    const { stepTimeoutMs } = this.#options;
    const batch = new StepBatch(
      entries.flatMap((entry) => ('episode' in entry ? [entry] : [])),
      stepTimeoutMs,
    );
    this.#batches.add(batch);
    try {
      const lines = await batch.lines();
      let next = 0;
      return entries.map((entry) => ('episode' in entry ? lines[next++]! : problemLine(entry.episodeId, entry.problem)));
    } finally {
      this.#batches.delete(batch);
    }
  }

  #discard({ episode, group }: Seat, message: string): void {
    this.#live.delete(episode.id);
    episode.release();
    group.discard(episode, new PolicyError(message));
  }

  #reap(): void {
    const { idleTimeoutMs } = this.#options;
    const oldest = performance.now() - idleTimeoutMs;
    for (const seat of this.#live.values()) {
      // While the environment is at work, nobody can send a sample.
      if (seat.episode.isWaitingForCaller && seat.episode.lastUsedAt < oldest)
        this.#discard(seat, `No sample came within ${idleTimeoutMs / 1000} s (--idle-timeout)`);
    }
    this.#ended.purgeStale();
  }
}

function unknownEpisode(episodeId: string): EpisodeProblem {
  const shown = episodeId.length > 64 ? `${episodeId.slice(0, 64)}…` : episodeId;
  return problemOf(
    'UnknownEpisodeError',
    `The server does not know the episode ${JSON.stringify(shown)}. It never existed, was deleted or timed out (--idle-timeout), or the server was started again. Begin a new episode.`,
  );
}
