/**
 * Waits for the answers to the entries of one request. An episode whose reward waits for its group must not hold up the request that brings the rest of its group
 * their next turns. It is answered with an error that says so, and the caller asks again.
 */
import type { CallerEpisode } from './caller-episode.ts';
import { type EpisodeProblem, problemLine, problemOf } from './episode-problem.ts';

interface Waiting {
  readonly episode: CallerEpisode;
  readonly answer: Promise<string>;
}

const PENDING = 'The episode has ended, and its reward waits for the others of its group. Play those, then repeat this entry.';

export class StepBatch {
  readonly #entries: readonly Waiting[];
  readonly #stepTimeoutMs: number;
  readonly #lines: (string | null)[];
  /** True if some of them are scored together. */
  readonly #hasGroups: boolean;
  readonly #done = Promise.withResolvers<void>();
  #left: number;

  constructor(entries: readonly Waiting[], stepTimeoutMs: number) {
    this.#entries = entries;
    this.#stepTimeoutMs = stepTimeoutMs;
    this.#lines = entries.map(() => null);
    this.#hasGroups = entries.some(({ episode }) => episode.together !== null);
    this.#left = entries.length;
  }

  /** A line of JSON for each entry, in order. */
  async lines(): Promise<readonly string[]> {
    if (this.#left === 0) return [];
    for (const [place, { answer }] of this.#entries.entries()) {
      void this.#await(place, answer);
    }
    const timer = setTimeout(() => this.#settleAll((episode) => this.#late(episode)), this.#stepTimeoutMs);
    try {
      await this.#done.promise;
    } finally {
      clearTimeout(timer);
    }
    return this.#lines as readonly string[];
  }

  /** Called whenever an episode was played or has ended. */
  review(): void {
    if (this.#left === 0 || !this.#hasGroups) return;
    const open = this.#entries.filter((_, place) => this.#lines[place] === null).map(({ episode }) => episode);
    if (!open.every(waitsForGroup)) return;
    const handedOut = new Set(this.#entries.flatMap(({ episode }) => (episode.isWaitingForCaller ? [episode.together] : [])));
    if (open.every((episode) => handedOut.has(episode.together))) this.#settleAll(() => problemOf('GroupPendingError', PENDING));
  }

  async #await(place: number, answer: Promise<string>): Promise<void> {
    this.#settle(place, await answer);
    this.review();
  }

  #settleAll(problem: (episode: CallerEpisode) => EpisodeProblem): void {
    for (const [place, { episode }] of this.#entries.entries()) {
      if (this.#lines[place] === null) this.#settle(place, problemLine(episode.id, problem(episode)));
    }
  }

  #settle(place: number, line: string): void {
    if (this.#lines[place] !== null) return;
    this.#lines[place] = line;
    this.#left -= 1;
    if (this.#left === 0) this.#done.resolve();
  }

  #late(episode: CallerEpisode): EpisodeProblem {
    const seconds = this.#stepTimeoutMs / 1000;
    return waitsForGroup(episode)
      ? problemOf('GroupPendingError', `${PENDING} This did not come within ${seconds} s (--step-timeout).`)
      : problemOf('StepTimeoutError', `The environment did not answer within ${seconds} s (--step-timeout). Repeat this entry to wait on.`);
  }
}

function waitsForGroup({ together, isPlayed, hasEnded }: CallerEpisode): boolean {
  return together !== null && isPlayed && !hasEnded;
}
