/** Data sets, corpora and configurations that are not files, never end, or say what must not be scored. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CommandHost } from '../cli/command-host.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-attacked-data-'));
const host = new CommandHost();
afterAll(async () => {
  await host[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});
const at = (name: string) => join(folder, name);
const line = (row: object) => `${JSON.stringify(row)}\n`;
const GOOD = { question: 'Who is the mayor of Kinzer?', golden_answers: ['Purorka'] };

beforeAll(() => {
  for (const name of ['pipe.jsonl', 'pipe.toml', 'pipe.yaml', 'pipe.csv']) spawnSync('mkfifo', [at(name)]);
  mkdirSync(at('run'));
  spawnSync('mkfifo', [at('run/metadata.json')]);
  for (const [name, target] of [
    ['endless.jsonl', '/dev/zero'],
    ['endless.toml', '/dev/urandom'],
    ['endless.yaml', '/dev/zero'],
    ['endless.json', '/dev/zero'],
    ['loop.jsonl', at('loop.jsonl')],
  ] as const)
    symlinkSync(target, at(name));
  writeFileSync(at('blank.jsonl'), line(GOOD) + line({ ...GOOD, golden_answers: [''] }));
  writeFileSync(at('space.jsonl'), line({ ...GOOD, golden_answers: ['Purorka', ' \t'] }));
  writeFileSync(at('alone.jsonl'), line({ question: 'Who?', answer: '' }));
  writeFileSync(at('deep.jsonl'), `{"question":"Who?","answer":"x","note":${'['.repeat(200_000)}${']'.repeat(200_000)}\n`);
  const aliases = Array.from({ length: 20 }, (_, i) => `l${i + 1}: &l${i + 1} [${Array(9).fill(`*l${i}`).join(', ')}]`);
  writeFileSync(at('bomb.yaml'), ['l0: &l0 [x]', ...aliases].join('\n'));
  writeFileSync(at('code.yaml'), '!!js/function "() => process.exit(0)"\n');
  writeFileSync(at('deep.yaml'), '['.repeat(200_000));
  writeFileSync(at('long.jsonl'), Buffer.alloc(70 * 2 ** 20, 'x'));
});

const dataset = (name: string) => ['search-r1', '-n', '1', '-a', JSON.stringify({ dataset: at(name), corpus: 'fact-world' }), '-o', at('out')];

const grpo = (args: object) => ['grpo-000', '-n', '1', '-a', JSON.stringify(args), '-o', at('out')];

describe('a command with a hostile file', () => {
  it.each<[string, string, () => string[], RegExp]>([
    ['a data set that is a pipe', 'vf-eval', () => dataset('pipe.jsonl'), /pipe\.jsonl is a pipe; name a regular file/],
    ['a data set without end', 'vf-eval', () => dataset('endless.jsonl'), /endless\.jsonl is a device/],
    ['a data set that leads to itself', 'vf-eval', () => dataset('loop.jsonl'), /loop\.jsonl/],
    ['a data set of one endless line', 'vf-eval', () => dataset('long.jsonl'), /Line 1 of .*long\.jsonl is longer/],
    ['a data set that is nested without end', 'vf-eval', () => dataset('deep.jsonl'), /line 1/],
    [
      'a blank answer, which every text contains',
      'vf-eval',
      () => dataset('blank.jsonl'),
      /^vf-eval: Line 2 of .*blank\.jsonl: expected answers in "golden_answers", got a blank answer/,
    ],
    ['an answer of spaces among others', 'vf-eval', () => dataset('space.jsonl'), /Line 1 of .*"golden_answers", got a blank answer/],
    ['one blank answer alone', 'vf-eval', () => dataset('alone.jsonl'), /Line 1 of .*"answer", got a blank answer/],
    ['a configuration that is a pipe', 'vf-eval', () => [at('pipe.toml')], /pipe\.toml is a pipe/],
    ['a configuration without end', 'vf-eval', () => [at('endless.toml')], /endless\.toml is a device/],
    ['a training configuration that is a pipe', 'vf-train', () => [at('pipe.toml')], /pipe\.toml is a pipe/],
    ['a run whose metadata is a pipe', 'vf-export', () => [at('run'), '-o', '-'], /metadata\.json is a pipe/],
    ['worked solutions that are a pipe', 'vf-seed', () => [at('pipe.jsonl'), '-o', at('out')], /pipe\.jsonl is a pipe/],
    ['worked solutions without end', 'vf-seed', () => [at('endless.jsonl'), '-o', at('out')], /endless\.jsonl is a device/],
    ['worked solutions of one endless line', 'vf-seed', () => [at('long.jsonl'), '-o', at('out')], /Line 1 of .*long\.jsonl is longer/],
    ['worked solutions that are nested without end', 'vf-seed', () => [at('deep.jsonl'), '-o', at('out')], /line 1 \(it is not JSON\)/],
    ['an environment’s configuration that is a pipe', 'vf-eval', () => grpo({ config: at('pipe.yaml') }), /pipe\.yaml is a pipe/],
    ['an environment’s configuration without end', 'vf-eval', () => grpo({ config: at('endless.yaml') }), /endless\.yaml is a device/],
    ['aliases that stand for billions of values', 'vf-eval', () => grpo({ config: at('bomb.yaml') }), /bomb\.yaml is not YAML: .*alias/i],
    ['YAML that holds code', 'vf-eval', () => grpo({ config: at('code.yaml') }), /code\.yaml is not YAML/],
    ['YAML that is nested without end', 'vf-eval', () => grpo({ config: at('deep.yaml') }), /deep\.yaml is not YAML/],
    ['questions in CSV that are a pipe', 'vf-eval', () => grpo({ dataset: at('pipe.csv') }), /pipe\.csv is a pipe/],
    ['questions in JSON without end', 'vf-eval', () => grpo({ dataset: at('endless.json') }), /endless\.json is a device/],
    ['a keyword base that is a pipe', 'vf-eval', () => grpo({ keywords: at('pipe.yaml') }), /pipe\.yaml is a pipe/],
    ['a corpus that is a pipe', 'vf-serve', () => ['retrieve', '--corpus', at('pipe.jsonl'), '--port', '0'], /pipe\.jsonl is a pipe/],
    ['a corpus without end', 'vf-index', () => [at('endless.jsonl'), '-o', at('index')], /endless\.jsonl is a device/],
  ])('refuses %s in one line (2)', async (_, command, args, message) => {
    const { code, stderr } = await host.run(command, args(), { cwd: folder, env: {} });
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
    expect(stderr.trimEnd()).not.toContain('\n');
  });
});
