/** `vf-rounds`, each test in a folder of its own, and a small trace with its rows. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, expect } from 'vitest';
import { rowsText, type SomeRollout, traceText } from '../../rounds/trace-lines.ts';
import { BARE_ENVIRONMENT } from '../../bare-environment.ts';
import { runInProcess } from '../in-process.ts';

const SCRIPT = join(import.meta.dirname, '../../../src/cli/vf-rounds.ts');

/** Makes a folder before each test of the file, and removes it after. Names are relative to it. */
export function stagesFolder() {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'vf-rounds-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const at = (name: string) => join(folder, name);
  const file = (name: string, content: string) => {
    writeFileSync(at(name), content);
    return name;
  };
  const rowsOf = (name: string) =>
    readFileSync(at(name), 'utf8')
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  const idsOf = (name: string) => rowsOf(name).map(({ id, uid }) => id ?? uid);
  const manifest = (name: string) =>
    JSON.parse(readFileSync(at(`${name}.manifest.json`), 'utf8')) as {
      counts: Record<string, number>;
      complete: boolean;
      rule: Record<string, unknown>;
    };

  /** In a process of its own, so that several run at a time. */
  const roundsAlone = async (...args: string[]) => {
    const words = ['--conditions=vf-search-source', '--no-warnings', SCRIPT, ...args];
    const child = spawn(process.execPath, words, { cwd: folder, env: { ...BARE_ENVIRONMENT, HOME: folder }, stdio: ['ignore', 'pipe', 'pipe'] });
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
    return { status: child.exitCode, stdout, stderr };
  };
  const rounds = async (...args: string[]) => {
    const { code: status, stdout, stderr } = await runInProcess('vf-rounds', args, { cwd: folder, env: { HOME: folder } });
    return { status, stdout, stderr };
  };
  const done = async (...args: string[]) => {
    const { status, stdout, stderr } = await rounds(...args);
    expect({ status, stderr }).toEqual({ status: 0, stderr: expect.any(String) as string });
    return stdout;
  };
  const world = () => ({ trace: file('trace.jsonl', traceText(TRACE)), rows: file('rows.jsonl', rowsText(IDS)) });
  return { at, file, rowsOf, idsOf, manifest, rounds, roundsAlone, done, world };
}

/** Of each prompt: NDCGs and judge scores of its rollouts. */
export function group(
  prompt: string,
  ndcgs: readonly number[],
  judges: readonly number[] = ndcgs.map(() => 0),
  more: Partial<SomeRollout> = {},
): SomeRollout[] {
  return ndcgs.map((ndcg, index) => ({ prompt, index, ndcg, judge: judges[index]!, reward: judges[index]!, think: `I look ${index}.`, ...more }));
}

export const TRACE = [
  ...group('easy', [1, 1, 1, 1], [1, 1, 1, 1]),
  ...group('near', [0.7, 0.7, 0.7, 0.7], [1, 0, 0, 0]),
  ...group('far', [0.1, 0.1, 0.1, 0.1], [0, 0, 0, 0]),
  ...group('lost', [0, 0, 0, 0], [0, 0, 0, 0], { pages: ['else_3'] }),
  ...group('gated', [1, 1, 1, 1], [0, 0, 0, 0], { format: 0 }),
];
export const IDS = ['lost', 'far', 'near', 'easy', 'gated', 'unplayed'];
