/** Hugging Face `datasets` loads what several runs wrote as one data set. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, it } from 'vitest';
import { describePeer, resultLine, runPeer } from './peer.ts';

const ROOT = join(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'vf-interop-datasets-'));
afterAll(() => rmSync(folder, { recursive: true }));

const ROWS = 6;

async function command(name: string, args: readonly string[]): Promise<string> {
  const path = join(ROOT, 'bin', `${name}.js`);
  return (await promisify(execFile)(process.execPath, [path, ...args], { cwd: folder, timeout: 120_000, maxBuffer: 2 ** 24 })).stdout;
}

/** The folder of a run of the bundled model. */
async function evaluate(temperature: string): Promise<string> {
  const world = JSON.stringify({ dataset: 'fact-world', corpus: 'fact-world' });
  const args = ['search-r1', '-p', 'embedded', '-n', String(ROWS), '-T', temperature, '-t', '48', '-a', world, '-o', folder, '--json'];
  return (JSON.parse(await command('vf-eval', args)) as { directory: string }).directory;
}

interface Loaded {
  readonly version: string;
  readonly files: number;
  readonly rows: number;
  readonly types: Readonly<Record<string, string>>;
  readonly error: string | null;
}

describePeer('datasets', { quick: false }, () => {
  it('loads results, and exports, of runs at temperature 1 and 0.7', async () => {
    const runs = [await evaluate('1'), await evaluate('0.7')];
    const exported = runs.map((_, i) => join(folder, `rollouts-${i}.jsonl`));
    for (const [i, run] of runs.entries()) await command('vf-export', [run, '-o', exported[i]!]);
    const results = runs.map((run) => join(run, 'results.jsonl'));
    const load = (files: readonly string[]) => runPeer<Loaded>('datasets', 'load_together', files, { timeoutMs: 120_000 });
    const [ofResults, ofExports] = [await load(results), await load(exported)];
    for (const loaded of [ofResults, ofExports]) {
      expect(loaded).toMatchObject({ files: 2, rows: 2 * ROWS, error: null });
      expect(loaded.types).toMatchObject({ reward: 'float64' });
    }
    expect(ofExports.types).toMatchObject({
      'token_ids[]': 'int64',
      'loss_mask[]': 'int64',
      'logprobs[]': 'float64',
      'sampling.temperature': 'float64',
    });
    resultLine('datasets', ofExports.version, 'results and exports of two runs, each loaded together', `${ofExports.rows} rows each`);
  });
});
