/** Messages between the page and the worker that trains. They hold plain data. */

export type ToLab =
  | { readonly kind: 'start'; readonly seed: number; readonly threads: number; readonly steps: number | null }
  /** Ends the run after the step that is running, with an evaluation. */
  | { readonly kind: 'stop' }
  /** Answered by `adapter`. Valid once the run has ended. */
  | { readonly kind: 'save' };

export type FromLab =
  | { readonly kind: 'opened'; readonly engine: string; readonly threads: number; readonly steps: number; readonly heldOut: number }
  | { readonly kind: 'phase'; readonly phase: string; readonly step: number }
  | { readonly kind: 'progress'; readonly step: number; readonly done: number; readonly total: number }
  | { readonly kind: 'step'; readonly step: number; readonly values: Values }
  | { readonly kind: 'evaluation'; readonly step: number; readonly values: Values; readonly transcripts: readonly Transcript[] }
  | { readonly kind: 'note'; readonly message: string }
  | { readonly kind: 'ended'; readonly how: 'finished' | 'stopped' }
  /** `advice` tells the reader what to do. */
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'adapter'; readonly step: number; readonly files: readonly NamedFile[] };

/** Values by the names of docs/metrics.md. */
export type Values = Readonly<Record<string, number | null>>;

/** One held-out question as the policy played it. */
export interface Transcript {
  readonly id: string;
  readonly question: string;
  readonly answers: readonly string[];
  /** Null for a rollout that failed. */
  readonly reward: number | null;
  readonly segments: readonly { readonly kind: string; readonly text: string }[];
}

export interface NamedFile {
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}
