/** A LoRA adapter that `generate`, `stream` and `logProbs` of its engine accept. Its numbers never change: a later publication of a trainer is another adapter. */
import type { LoadedAdapter, TokenEngine } from '../engine-types.ts';

export class Adapter implements Disposable {
  /** From 1 to 512. */
  readonly rank: number;
  /** The adapter adds (alpha / rank) · B A x. */
  readonly alpha: number;
  /** Number of the trainer's optimiser steps when it was published; null for an adapter from a directory. */
  readonly version: number | null;
  /** Null for an adapter that a trainer published. */
  readonly directory: string | null;
  /** Its name in the engine. Internal. */
  readonly name: string;
  readonly #engine: TokenEngine;

  /** Internal: `Engine.loadAdapter` and `Trainer.publish` return adapters. */
  constructor(engine: TokenEngine, { name, directory, rank, alpha }: LoadedAdapter, version: number | null) {
    this.#engine = engine;
    this.name = name;
    this.directory = directory;
    this.rank = rank;
    this.alpha = alpha;
    this.version = version;
  }

  /** Tells whether it was loaded or published by this engine: another one may have an adapter of the same name. Internal. */
  isOf(engine: TokenEngine): boolean {
    return engine === this.#engine;
  }

  /** True if requests can use it. */
  get isLoaded(): boolean {
    return this.#engine.adapters.some(({ name }) => name === this.name);
  }

  /** Generations in flight finish with it, new ones are refused; then its memory is free. Safe to call twice. */
  unload(): void {
    this.#engine.unloadAdapter(this.name);
  }

  [Symbol.dispose](): void {
    this.unload();
  }
}
