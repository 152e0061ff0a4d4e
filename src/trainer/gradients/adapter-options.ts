/** The adapter that a backend on this machine trains. */
export interface AdapterOptions {
  readonly rank: number;
  readonly alpha: number;
  /** Last names of linear layers: `q_proj`, ... */
  readonly targets: readonly string[];
  /** Seed of A; B starts at 0. */
  readonly seed: number;
  /** A PEFT directory of the same rank, alpha and targets to start from. */
  readonly initial: string | null;
}
