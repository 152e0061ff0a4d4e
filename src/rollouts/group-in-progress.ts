/** The members of one group between being played and being scored. */
import type { Row } from '../core/dataset.ts';
import type { Rollout, ScoredGroup } from './rollout.ts';
import type { FinishedMember, PlayedMember, Scoring } from './scoring.ts';

export interface GroupOptions<R extends Row> {
  /** Number of members. */
  readonly size: number;
  /** True if members are scored together, once all have been played. */
  readonly together: boolean;
  readonly scoring: Scoring<R>;
  readonly onScored: (rollout: Rollout<R>) => void;
  readonly onEnd: (group: ScoredGroup<R>) => void;
}

export class GroupInProgress<R extends Row> {
  readonly #row: R;
  readonly #options: GroupOptions<R>;
  #waiting: Promise<FinishedMember<R>>[] = [];
  #played = 0;
  #scored: Rollout<R>[] = [];
  /** All scoring that is under way; never rejects. */
  #scoring: Promise<unknown> = Promise.resolve();
  #hasEnded = false;

  constructor(row: R, options: GroupOptions<R>) {
    this.#row = row;
    this.#options = options;
  }

  /** Adds a member that was played. Returns at once; the last one ends the group once its scores are known. */
  add(member: PlayedMember<R>): void {
    this.#played += 1;
    this.#waiting.push(this.#options.scoring.finish(member));
    const isWhole = this.#played === this.#options.size;
    if (!this.#options.together || isWhole) this.#score();
    if (isWhole) void this.end();
  }

  /** Scores the members played so far, even if some are missing, and yields the group. Safe to call twice. */
  async end(): Promise<void> {
    if (this.#waiting.length > 0) this.#score();
    await this.#scoring;
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const rollouts = this.#scored.toSorted((a, b) => a.index - b.index);
    this.#options.onEnd({ groupId: String(this.#row.exampleId), row: this.#row, rollouts });
  }

  #score(): void {
    const members = this.#waiting;
    this.#waiting = [];
    this.#scoring = Promise.all([this.#scoring, this.#scoreTogether(members)]);
  }

  async #scoreTogether(finishing: readonly Promise<FinishedMember<R>>[]): Promise<void> {
    for (const rollout of await this.#options.scoring.score(await Promise.all(finishing))) {
      this.#scored.push(rollout);
      this.#options.onScored(rollout);
    }
  }
}
