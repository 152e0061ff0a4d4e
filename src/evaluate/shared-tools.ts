import type { WireMetadata, WireResult } from '../schemas/results.ts';
import { canonicalJson } from '../core/canonical-json.ts';

/** The native tools of a run, if every finished rollout was offered the same ones. Keeps one copy for all rollouts. */
export class SharedTools {
  #first: NonNullable<WireResult['tools']> | null = null;
  #text = '';
  #differ = false;

  add({ error, tools = [] }: Pick<WireResult, 'error' | 'tools'>): void {
    // A failed rollout may have ended before its tools were known.
    if (error !== null || this.#differ) return;
    const text = canonicalJson(tools);
    if (this.#first === null) {
      this.#first = tools;
      this.#text = text;
    } else if (text !== this.#text) this.#differ = true;
  }

  /** Null if no rollout had tools, or if they differed. */
  get value(): WireMetadata['tools'] {
    return this.#differ || this.#first === null || this.#first.length === 0 ? null : this.#first;
  }
}
