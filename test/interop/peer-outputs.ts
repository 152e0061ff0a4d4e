/** What the scripts of peers print, or write, of the rows that they played. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { WireMessage } from '../../src/schemas/branch-columns.ts';

type Metrics = Readonly<Record<string, number>>;

/** Of openenv/play.py. */
export interface OpenEnvPlay {
  readonly version: string;
  readonly episodes: readonly OpenEnvEpisode[];
}

export interface OpenEnvEpisode {
  readonly example_id: string;
  readonly reward: number;
  readonly metrics: Metrics;
  readonly stop_condition: string;
  readonly completion: readonly WireMessage[];
  readonly state: object;
}

/** Of inspect/eval.py. */
export interface InspectRun {
  readonly version: string;
  readonly exit: number;
  readonly printed: string;
  readonly status: string;
  readonly scored: number;
  readonly means: Readonly<Record<string, readonly [mean: number, stderr: number]>>;
  readonly samples: readonly {
    readonly id: string;
    readonly error: string | null;
    readonly scores: readonly Metrics[];
    /** Of each score. */
    readonly metadata: readonly Readonly<Record<string, unknown>>[];
    readonly messages: readonly (readonly [role: string, text: string])[];
  }[];
}

/** A row that vf-eval of verifiers 0.1.14 writes. */
export interface V0Output {
  readonly info: { readonly example_id: string };
  readonly completion: readonly WireMessage[];
  readonly reward: number;
  readonly metrics: Metrics;
  readonly error: { readonly error: string; readonly error_chain_repr: string } | null;
}

/** The rows of the run in a folder that vf-eval of verifiers 0.1.14 wrote. */
export function v0Outputs(folder: string): readonly V0Output[] {
  const [file] = globSync('evals/*/*/results.jsonl', { cwd: folder });
  const lines = readFileSync(join(folder, file!), 'utf8').trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as V0Output);
}
