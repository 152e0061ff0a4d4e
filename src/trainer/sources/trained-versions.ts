/**
 * The versions that steps have trained. They tell how many updates lie between two versions: a version has the number of the step that made it, so a
 * step that changed nothing leaves a gap, and the difference of two numbers would make rollouts look older than they are.
 */

/** Older versions are forgotten: no rollout is in flight for so many updates. */
const MOST_KEPT = 1000;

export class TrainedVersions {
  /** Ascending. */
  #versions: readonly number[] = [];

  /** A step trains this version. */
  add(version: number): void {
    const last = this.#versions.at(-1);
    if (last === undefined || version > last) this.#versions = [...this.#versions, version].slice(-MOST_KEPT);
  }

  /** The number of updates from the version that sampled to the one that is trained. Numbers below the first known version count as updates. */
  age(sampled: number, trained: number): number {
    if (sampled >= trained) return 0;
    const unknown = Math.min(this.#versions[0] ?? trained, trained) - sampled - 1;
    return Math.max(0, unknown) + this.#versions.filter((version) => version > sampled && version < trained).length + 1;
  }

  /** For a checkpoint. */
  get state(): readonly number[] {
    return this.#versions;
  }

  load(versions: readonly number[]): void {
    this.#versions = versions;
  }
}
