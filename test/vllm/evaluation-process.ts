/** The real `vf-eval` and `vf-export`, compiled, in child processes over one temporary folder; and what the policy said in their rollouts. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { NANO_MODEL } from '../loopback/vllm-client.ts';
import { largestLogProbError } from './prompt-logprobs.ts';

const ROOT = join(import.meta.dirname, '../..');

/** The fields of `--json` that are read here; docs/ describes all of them. */
export interface EvaluationSummary {
  readonly directory: string;
  readonly rollouts: Readonly<Record<'planned' | 'recorded' | 'finished' | 'errored', number>>;
  readonly errors: Readonly<Record<string, number>>;
  readonly prefix_breaks: number;
  readonly stop_conditions: Readonly<Record<string, number>>;
  readonly tasks?: Readonly<Record<string, { readonly finished: number }>>;
  readonly roles?: Readonly<Record<string, { readonly calls: number; readonly failures: number; readonly tokens: { readonly output: number } }>>;
}

/** The fields of an exported rollout that are read here. */
export interface RecordedRollout {
  readonly rollout_id: string;
  /** Of the branch that it left; absent for a rollout of one branch. */
  readonly parent?: number | null;
  readonly prompt_length: number;
  readonly token_ids: readonly number[];
  readonly loss_mask: readonly number[];
  readonly logprobs: readonly (number | null)[];
  readonly segments: readonly { readonly kind: string; readonly start: number; readonly end: number }[];
  readonly stop_condition: string;
  readonly is_truncated: boolean;
  readonly images?: readonly { readonly sha256: string; readonly offset: number; readonly length: number }[];
}

/** Gone when disposed, with the evaluations in it. */
export class EvaluationFolder implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'vf-vllm-'));

  /** Evaluates an environment, exports, and reads both back. */
  async evaluate(
    { url, model = NANO_MODEL }: { readonly url: string; readonly model?: string },
    environment: string,
    ...args: readonly string[]
  ): Promise<{ summary: EvaluationSummary; rollouts: RecordedRollout[] }> {
    const output = await this.run('vf-eval', environment, '-b', url, '-m', model, '-o', this.path, '--json', ...args);
    const summary = JSON.parse(output) as EvaluationSummary;
    const file = join(summary.directory, 'rollouts.jsonl');
    await this.run('vf-export', summary.directory, '-o', file);
    return { summary, rollouts: this.lines(file) as unknown as RecordedRollout[] };
  }

  /** The values of a JSONL file. */
  lines(file: string): Readonly<Record<string, unknown>>[] {
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
    return lines.map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>);
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true });
  }

  /** Runs a command of the package as a user does; its output. */
  async run(command: string, ...args: readonly string[]): Promise<string> {
    const path = join(ROOT, 'bin', `${command}.js`);
    const { stdout } = await promisify(execFile)(process.execPath, [path, ...args], { cwd: this.path, maxBuffer: 64 * 2 ** 20 });
    return stdout;
  }
}

/** Largest difference between recorded log-probs and the server's own prompt_logprobs, one rollout after the other. */
export async function judge(url: string, rollouts: readonly RecordedRollout[], model = NANO_MODEL): Promise<{ error: number; tokens: number }> {
  let worst = { error: 0, tokens: 0 };
  for (const { token_ids: ids, loss_mask: mask, logprobs: logProbs } of rollouts) {
    const { error, tokens } = await largestLogProbError(url, model, { ids, mask, logProbs });
    worst = { error: Math.max(worst.error, error), tokens: worst.tokens + tokens };
  }
  return worst;
}
