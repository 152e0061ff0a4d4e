import type { WireMetadata, WireResult } from '../schemas/results.ts';
import { canonical } from './run-config.ts';

/** The native tools of a run, as long as every finished rollout was offered the same. Keeps one copy, however many rollouts there are. */
export class SharedTools {
  #first: NonNullable<WireResult['tools']> | null = null;
  #text = '';
  #differ = false;

  add({ error, tools = [] }: Pick<WireResult, 'error' | 'tools'>): void {
    // One that failed may have ended before its tools were known.
    if (error !== null || this.#differ) return;
    const text = canonical(tools);
    if (this.#first === null) {
      this.#first = tools;
      this.#text = text;
    } else if (text !== this.#text) this.#differ = true;
  }

  /** Null where no rollout had tools, or not all had the same. */
  get value(): WireMetadata['tools'] {
    return this.#differ || this.#first === null || this.#first.length === 0 ? null : this.#first;
  }
}
