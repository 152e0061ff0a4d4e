import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { traceText } from '../../rounds/trace-lines.ts';
import { BARE_ENVIRONMENT } from '../../bare-environment.ts';

const SCRIPT = join(import.meta.dirname, '../../../src/cli/vf-rounds.ts');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-report-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

async function report(...args: string[]): Promise<string> {
  const words = ['--conditions=vf-search-source', '--no-warnings', SCRIPT, 'report', ...args];
  return (await promisify(execFile)(process.execPath, words, { cwd: folder, env: { ...BARE_ENVIRONMENT, HOME: folder } })).stdout;
}

describe('vf-rounds report', () => {
  it('says that no judge was asked instead of counting it as 0, and names the run of the trace', async () => {
    const rollouts = [1, 0.5].map((ndcg, index) => ({ prompt: 'a', index, ndcg, judge: null, reward: 0 }));
    writeFileSync(join(folder, 'trace.jsonl'), traceText(rollouts));
    const table = await report('--trace', 'trace.jsonl');
    expect(table).toMatch(/^mean reward, judge, NDCG +0, not judged, 0\.75$/m);
    for (const fact of ['prompts by share of successes', 'right without its document', 'wrong with all golden pages'])
      expect(table).toMatch(new RegExp(`^${fact} +not judged$`, 'm'));
    expect(table).toMatch(/^without a search +0 \(0 %\)$/m);
    writeFileSync(join(folder, 'metadata.json'), '{"name":"one page"}');
    expect(await report('--trace', 'trace.jsonl')).toMatch(/^run +one page$/m);
    const { trace } = JSON.parse(await report('--trace', 'trace.jsonl', '--json')) as { trace: unknown };
    expect(trace).toMatchObject({ runs: ['one page'], rollouts: 2, judged: 0, judge_mean: null, success_rates: null, wrong_with_golden_pages: null });
  });
});
