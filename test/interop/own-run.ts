/** The same rows, played by our own vf-eval: what a peer's results are compared with. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { WireMessage } from '../../src/schemas/branch-columns.ts';
import type { RolloutExport } from '../../src/schemas/rollout-export.ts';

export const ROOT = join(import.meta.dirname, '../..');

/** A line of results.jsonl. */
export interface OwnRow {
  readonly example_id: string;
  readonly prompt: readonly WireMessage[];
  readonly completion: readonly WireMessage[];
  readonly reward: number | null;
  readonly metrics: Readonly<Record<string, number>> | null;
  readonly stop_condition: string;
}

export interface OwnRun extends Disposable {
  /** The `-o` of the run. */
  readonly folder: string;
  readonly rows: ReadonlyMap<string, OwnRow>;
  /** What vf-export writes of it. */
  readonly exported: () => Promise<ReadonlyMap<string, RolloutExport>>;
}

/** Plays `vf-eval <args>` in a folder that is gone with the run. */
export async function ownRun(args: readonly string[]): Promise<OwnRun> {
  const folder = mkdtempSync(join(tmpdir(), 'vf-interop-own-'));
  const command = async (name: string, words: readonly string[]) => {
    const options = { cwd: ROOT, timeout: 200_000, maxBuffer: 2 ** 26 };
    const run = promisify(execFile)(process.execPath, [join(ROOT, 'bin', `${name}.js`), ...words], options);
    // A run whose rollouts all failed is reported, and fails the command.
    const { stdout } = await run.catch((error: { readonly stdout?: string }) =>
      error.stdout?.startsWith('{') ? { stdout: error.stdout } : Promise.reject(error),
    );
    return stdout;
  };
  const { directory } = JSON.parse(await command('vf-eval', [...args, '-o', folder, '--json'])) as { readonly directory: string };
  return {
    folder,
    rows: byExample(linesOf(join(directory, 'results.jsonl')).map((line) => JSON.parse(line) as OwnRow)),
    async exported() {
      const file = join(folder, 'rollouts.jsonl');
      await command('vf-export', [directory, '-o', file]);
      return byExample(linesOf(file).map((line) => JSON.parse(line) as RolloutExport));
    },
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}

function linesOf(file: string): readonly string[] {
  return readFileSync(file, 'utf8').split('\n').slice(0, -1);
}

function byExample<T extends { readonly example_id: string | number }>(rows: readonly T[]): ReadonlyMap<string, T> {
  return new Map(rows.map((row) => [String(row.example_id), row]));
}
