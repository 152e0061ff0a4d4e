/** `vf-seed` in a child process, over the bundled rows, files and a hub on loopback, and the way from its rows to a run that starts from their adapter. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { PromptRow } from '../../src/schemas/demonstration-row.ts';
import { startLoopbackHub } from '../data/loopback-hub.ts';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';
import { runInProcess } from './in-process.ts';

const ROOT = join(import.meta.dirname, '../..');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-seed-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const at = (name: string) => join(folder, name);
const linesOf = (path: string) => readFileSync(path, 'utf8').trimEnd().split('\n');
const rowsOf = (path: string) => linesOf(path).map((line) => JSON.parse(line) as PromptRow);

function run(name: string, args: readonly string[], variables: Readonly<Record<string, string>> = {}) {
  const env = { ...BARE_ENVIRONMENT, HOME: folder, ...variables };
  const command = ['--conditions=vf-search-source', '--no-warnings', join(ROOT, 'src/cli', `${name}.ts`), ...args];
  return new Promise<{ status: number; stdout: string; stderr: string }>((resolve) => {
    execFile(process.execPath, command, { cwd: folder, env }, (error, stdout, stderr) => {
      resolve({ status: error === null ? 0 : (error.code as number), stdout, stderr });
    });
  });
}

/** vf-seed in this process, as if it were one of its own. */
async function said(args: readonly string[], variables: Readonly<Record<string, string>> = {}) {
  const { code: status, ...printed } = await runInProcess('vf-seed', args, { cwd: folder, env: { HOME: folder, ...variables } });
  return { status, ...printed };
}

const vfSeed = (...args: string[]) => said(args);

const GOOD = { question: 'q', solution: 'some thought', answer: '1' };

function written(name: string, lines: readonly unknown[]): string {
  writeFileSync(at(name), lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''));
  return name;
}

describe('vf-seed', () => {
  it('writes supervised rows of the bundled problems, and the commands that follow', async () => {
    const { status, stdout, stderr } = await vfSeed('worked-problems', '-o', 'seed.jsonl', '-m', 'nano-base', '--for', 'search-r1');
    expect(status).toBe(0);
    const rows = rowsOf(at('seed.jsonl'));
    expect(rows.map(({ example_id: id }) => id)).toEqual([1, 2, 3, 4, 5].map((line) => `worked-problems:${line}`));
    expect(rows[1]!.segments!.map(({ text, weight }) => [text.slice(0, 12), weight])).toEqual([
      ['<think>\nThe ', 1],
      ['<answer>49</', 0.1],
    ]);
    expect(stderr).toMatch(/^vf-seed: 5 rows of worked-problems\/train\.jsonl written to seed\.jsonl; the longest has \d+ tokens\n/);
    const [train, use] = stdout.trimEnd().split('\n');
    expect(train).toMatch(
      /vf-train(\.js)? search-r1 -m nano-base --sft seed\.jsonl --set sft\.aggregation=sequence_mean_token_sum --set sft\.batch_size=5 --embedded --rank 8/,
    );
    expect(use).toMatch(/vf-train(\.js)? search-r1 -m nano-base --preset laptop --set model\.initial_adapter=ADAPTER$/);
  });

  it('holds rows out for a validation loss where there are enough, and names no machine for a model it does not know', async () => {
    const data = written(
      'rows.jsonl',
      Array.from({ length: 20 }, () => GOOD),
    );
    const { stdout, stderr } = await vfSeed(data, '-o', 'seed.jsonl', '-m', 'org/model');
    expect(stdout.split('\n')[0]).toMatch(
      /vf-train(\.js)? self-play-code -m org\/model --sft seed\.jsonl --set \S+ --set sft\.batch_size=20 --set sft\.held_out=0\.1$/,
    );
    expect(stderr).toContain('org/model is not on this machine, so the lengths of the rows are unknown');
  });

  it('skips unusable lines, counts them and names the first', async () => {
    const tagged = { ...GOOD, solution: 'a </think> b' };
    const data = written('rows.jsonl', [GOOD, { question: 'q' }, '{"question": ', '', { ...GOOD, answer: 5 }, tagged, { ...GOOD, extra: 1 }]);
    const { status, stderr } = await vfSeed(data, '-o', 'seed.jsonl');
    expect([status, linesOf(at('seed.jsonl')).length]).toEqual([0, 2]);
    expect(stderr).toContain(
      '2 rows of rows.jsonl written to seed.jsonl; left out: 5 unusable lines: line 2 (it has no solution), line 3 (it is not JSON), line 4 (it is blank), ...\n',
    );
    await vfSeed(data, '-o', 'text.jsonl', '--form', 'text', '--answer-weight', '0.5', '--limit', '2');
    expect(rowsOf(at('text.jsonl')).map(({ example_id: id, segments }) => [id, segments![1]!.weight])).toEqual([
      ['rows:1', 0.5],
      ['rows:6', 0.5],
    ]);
  });

  it('leaves out and counts rows that are longer than the context', async () => {
    const data = written('rows.jsonl', [GOOD, { ...GOOD, solution: 'thought '.repeat(4000) }]);
    const { stderr } = await vfSeed(data, '-o', 'seed.jsonl', '-m', 'nano-base');
    expect(stderr).toMatch(/1 row of rows\.jsonl written to seed\.jsonl; the longest has \d\d tokens; left out: 1 row of more than 2,048 tokens\n/);
    expect(linesOf(at('seed.jsonl'))).toHaveLength(1);
  });

  it('writes the rows alone to stdout', async () => {
    const { stdout, stderr } = await vfSeed('worked-problems', '-o', '-', '--limit', '2');
    expect(stdout.trimEnd().split('\n')).toHaveLength(2);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
  });

  it('takes LIMO from the hub by its name', async () => {
    const files = { 'limo.jsonl': `${JSON.stringify(GOOD)}\n` };
    await using hub = await startHub(files);
    const { status, stderr } = await run('vf-seed', ['GAIR/LIMO', '-o', 'seed.jsonl'], { HF_ENDPOINT: hub.url, HF_HOME: at('cache') });
    expect([status, stderr.split('\n')[0]]).toEqual([0, 'vf-seed: 1 row of GAIR/LIMO/limo.jsonl written to seed.jsonl']);
    expect(rowsOf(at('seed.jsonl'))[0]!.example_id).toBe('GAIR/LIMO:1');
  });

  it.each<[string, readonly string[], RegExp]>([
    [
      'no row left',
      ['bad.jsonl', '-o', 'x'],
      /Every line of bad\.jsonl is unusable: line 1 \(it is not an object\), line 2 \(its answer is blank\)\. Give one/,
    ],
    ['no row at all', ['/dev/null', '-o', 'x'], /\/dev\/null/],
    ['only long rows', ['worked-problems', '-o', 'x', '-m', 'nano-base', '--max-length', '1'], /Every row of \S+ is longer than 1 token\. Choose/],
    ['a length without a model', ['worked-problems', '-o', 'x', '--max-length', '9'], /Name the model with -m/],
    ['a model that is nowhere', ['worked-problems', '-o', 'x', '-m', 'nowhere'], /The model nowhere is not on this machine/],
    ['an unknown name', ['limo', '-o', 'x'], /The data set "limo" does not exist\. Choose worked-problems \(bundled\), GAIR\/LIMO/],
    ['a missing file', ['none.jsonl', '-o', 'x'], /The file none\.jsonl does not exist/],
    ['a split that the set does not have', ['worked-problems', '-o', 'x', '--split', 'test'], /has no split "test"\. Choose train\./],
    ['a limit of none', ['worked-problems', '-o', 'x', '--limit', '0'], /--limit must be an integer of at least 1, got 0/],
    ['a negative weight', ['worked-problems', '-o', 'x', '--answer-weight=-1'], /--answer-weight must be a number of at least 0, got -1/],
    [
      'an environment that does not exist',
      ['worked-problems', '-o', 'x', '--for', 'search-r9'],
      /The environment "search-r9" is unknown; .* known are /,
    ],
    ['an unknown form', ['worked-problems', '-o', 'x', '--form', 'xml'], /--form must be tags or text, got "xml"/],
    ['no output', ['worked-problems'], /-o is missing: file to write/],
  ])('answers %s with one line and exit code 2, and writes nothing', async (_, args, message) => {
    written('bad.jsonl', [[], { ...GOOD, answer: ' ' }]);
    const { status, stdout, stderr } = await vfSeed(...args);
    expect({ status, stdout, lines: stderr.split('\n').length }).toEqual({ status: 2, stdout: '', lines: 2 });
    expect(stderr).toMatch(message);
    expect(readdirSync(folder)).toEqual(['bad.jsonl']);
  });
});

async function startHub(files: Readonly<Record<string, string>>) {
  const hub = await startLoopbackHub({ repository: 'GAIR/LIMO', commit: 'c'.repeat(40), files });
  return { url: hub.url, [Symbol.asyncDispose]: () => hub.close() };
}

describe('the way from worked solutions to a run', () => {
  it('leads over vf-train --sft to an adapter that a run of search-r1 starts from', { tags: 'long', timeout: 240_000 }, async () => {
    await vfSeed('worked-problems', '-o', 'seed.jsonl', '-m', 'nano-base', '--for', 'search-r1');
    const supervised = [
      '--sft',
      'seed.jsonl',
      '--steps',
      '2',
      '--lr',
      '0.01',
      '--set',
      'sft.batch_size=5',
      '--set',
      'sft.aggregation=sequence_mean_token_sum',
    ];
    const lora = ['--rank', '8', '--set', 'lora.alpha=16', '--plain'];
    const first = await run('vf-train', ['search-r1', '-m', 'nano-base', ...supervised, ...lora, '--set', 'backend.kind=embedded', '-o', 'seeded']);
    expect({ status: first.status, stderr: first.status === 0 ? '' : first.stderr }).toEqual({ status: 0, stderr: '' });
    const adapter = join(onlyRun('seeded'), 'checkpoints/step-000002/adapter');
    const nll = metricsOf('seeded').flatMap((row) => (row['kind'] === 'step' ? [row['loss/sft/nll'] as number] : []));
    expect(nll[1]).toBeLessThan(nll[0]!);

    // At a rate that moves no weight by more than 1e-7, the adapter in the end is the one that the run started from.
    const small = ['--steps', '1', '-n', '2', '-r', '4', '--lr', '1e-7', '--set', 'evaluation.every=0', '--plain'];
    const laptop = ['search-r1', '--preset', 'laptop', ...small, '--set', `model.initial_adapter=${adapter}`, '-o', 'reinforced'];
    const second = await run('vf-train', laptop);
    expect({ status: second.status, stderr: second.status === 0 ? '' : second.stderr }).toEqual({ status: 0, stderr: '' });
    const [before, after] = [weightsOf(adapter), weightsOf(join(onlyRun('reinforced'), 'checkpoints/step-000001/adapter'))];
    expect(after.length).toBe(before.length);
    expect(Math.max(...before.map((weight, i) => Math.abs(weight - after[i]!)))).toBeLessThan(1e-6);
    expect(metricsOf('reinforced').filter((row) => row['kind'] === 'step')).toHaveLength(1);
  });
});

const onlyRun = (parent: string) => at(join(parent, 'train', readdirSync(at(join(parent, 'train')))[0]!));
const metricsOf = (parent: string) =>
  linesOf(join(onlyRun(parent), 'metrics.jsonl')).map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>);

/** All weights of an adapter, in the order of the file: behind a header, float32. */
function weightsOf(adapter: string): Float32Array {
  const bytes = readFileSync(join(adapter, 'adapter_model.safetensors'));
  const start = 8 + Number(bytes.readBigUInt64LE());
  return new Float32Array(Uint8Array.from(bytes.subarray(start)).buffer);
}
