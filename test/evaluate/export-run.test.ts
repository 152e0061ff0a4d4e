import { appendFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { PolicyError } from '../../src/core/errors.ts';
import { recordEvaluation } from '../../src/evaluate/record-evaluation.ts';
import { exportRun, unselectedIds } from '../../src/evaluate/export-run.ts';
import { readRollouts } from '../../src/evaluate/read-rollouts.ts';
import { exportProblem, type RolloutExport } from '../../src/schemas/rollout-export.ts';
import type { WireMetadata } from '../../src/schemas/results.ts';
import { sumsClient, sumsEnvironment, sumsOptions, sumsTurn } from './sums-world.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-export-'));
});
afterEach(() => rm(directory, { recursive: true }));

async function exported(path = directory): Promise<{ lines: string[]; counts: object }> {
  const lines: string[] = [];
  const counts = await exportRun(path, async (line) => void lines.push(line));
  return { lines, counts };
}

async function rollouts(lines: readonly string[]): Promise<RolloutExport[]> {
  const path = join(directory, 'rollouts.jsonl');
  await writeFile(path, lines.join(''));
  const read: RolloutExport[] = [];
  for await (const rollout of readRollouts(path)) read.push(rollout);
  return read;
}

describe('exportRun', () => {
  it('gives every token with its author, its log-prob where it was sampled, and the reward', async () => {
    const versions = new PolicyVersions({ version: 3, model: 'adapter-3' });
    await recordEvaluation(sumsOptions(directory, { numExamples: 1, client: sumsClient({ versions }), maxTokens: 50 }));
    const [rollout] = await rollouts((await exported()).lines);
    const ids = [...Buffer.from('What is 0 + 0?hm, \u2028 look again: =0')];
    const nulls = (n: number) => Array.from({ length: n }, () => null);
    expect(rollout).toEqual({
      schema_version: 1,
      rollout_id: '0/0',
      group_id: '0',
      example_id: 0,
      reward: 1,
      metrics: { right: 1, em: 1, pieces: 3 },
      stop_condition: 'completed',
      is_truncated: false,
      policy: { model: 'adapter-3', version: 3 },
      sampling: { temperature: 1, top_p: 1, max_tokens: 50, extra: '{}' },
      logprobs_mode: 'raw',
      tokenizer_hash: sumsClient().capabilities.tokenizerHash,
      token_ids: ids,
      loss_mask: [...Array(14).fill(0), 1, 1, 1, 1, ...Array(16).fill(0), 1, 1],
      logprobs: [...nulls(14), -0.125, -0.25, -0.375, -0.5, ...nulls(16), -0.125, -0.25],
      prompt_length: 14,
      segments: [
        { kind: 'prompt', start: 0, end: 14, version: null },
        { kind: 'model', start: 14, end: 18, version: 3 },
        { kind: 'observation', start: 18, end: 34, version: null },
        { kind: 'model', start: 34, end: 36, version: 3 },
      ],
    });
  });

  it('writes floats as floats and integers as integers, so that files of several runs load together', async () => {
    await recordEvaluation(sumsOptions(directory, { numExamples: 1, client: sumsClient({ logProb: (i) => -i }) }));
    const [line] = (await exported()).lines;
    expect(line).toContain('"schema_version":1,');
    expect(line).toContain('"reward":1.0,"metrics":{"right":1.0,"em":1.0,"pieces":3.0},');
    expect(line).toContain('"policy":{"model":"scripted","version":0},"sampling":{"temperature":1.0,"top_p":1.0,"max_tokens":null,"extra":"{}"},');
    expect(line).toContain(`"loss_mask":[${[...Array(14).fill(0), 1, 1, 1, 1, ...Array(16).fill(0), 1, 1].join()}]`);
    expect(line).toContain(`"logprobs":[${'null,'.repeat(14)}0.0,-1.0,-2.0,-3.0,${'null,'.repeat(16)}0.0,-1.0]`);
    expect(line).toContain('{"kind":"model","start":14,"end":18,"version":0}');
    const rows: string[] = [];
    await exportRun(directory, async (row) => void rows.push(row), { asDemonstrations: true });
    expect(rows[0]).toContain('"reward":1.0,"token_ids":[87,');
  });

  it('has the same sampling keys for every run: further fields of the request are text, and the requests name the limit of a run without one', async () => {
    const keys = async (path: string) => Object.entries((JSON.parse((await exported(path)).lines[0]!) as RolloutExport).sampling);
    const plain = join(directory, 'plain');
    const environment = sumsEnvironment();
    Object.assign(environment, { limits: { ...environment.limits, responseTokens: 60 } });
    await recordEvaluation(sumsOptions(plain, { numExamples: 1, environment }));
    const further = join(directory, 'further');
    const sampling = { temperature: 0.7, topP: 0.9, extra: { top_k: 5, guided: { api_key: 'open sesame', near: 'hush-hush "quoted"' } } };
    await recordEvaluation(sumsOptions(further, { numExamples: 1, sampling, maxTokens: 40, secrets: ['hush-hush "quoted"'] }));
    expect(await keys(plain)).toEqual(Object.entries({ temperature: 1, top_p: 1, max_tokens: 300, extra: '{}' }));
    const extra = '{"top_k":5,"guided":{"api_key":"***","near":"***"}}';
    expect(await keys(further)).toEqual(Object.entries({ temperature: 0.7, top_p: 0.9, max_tokens: 40, extra }));
    const metadata = JSON.parse(await readFile(join(further, 'metadata.json'), 'utf8')) as WireMetadata;
    expect(metadata.sampling_args).toEqual({ temperature: 0.7, top_p: 0.9, max_tokens: 40, extra });
  });

  it('keeps log-probs to the last bit', async () => {
    const logProb = (i: number) => -Math.exp(i) / 3;
    await recordEvaluation(sumsOptions(directory, { numExamples: 1, client: sumsClient({ logProb }) }));
    const [rollout] = await rollouts((await exported()).lines);
    expect(rollout!.logprobs.filter((l) => l !== null)).toEqual([0, 1, 2, 3, 0, 1].map(logProb));
  });

  it('leaves out failed rollouts, those with cut contexts and those without tokens, and counts them', async () => {
    const client = sumsClient({
      turns: (turn) => {
        if (turn.key === '0/0') throw new PolicyError('no');
        return sumsTurn(turn);
      },
    });
    await recordEvaluation(sumsOptions(directory, { client }));
    const drop = async (file: string, change: (text: string) => string) => {
      const path = join(directory, file);
      const lines = (await readFile(path, 'utf8')).split('\n').map(change);
      await writeFile(path, lines.filter((line, i) => line !== '' || i === lines.length - 1).join('\n'));
    };
    await drop('results.jsonl', (line) => (line.includes('"rollout_id":"1/0"') ? line.replace('"is_cut":false', '"is_cut":true') : line));
    await drop('tokens.jsonl', (line) => (line.includes('"rollout_id":"2/0"') ? '' : line));
    const { lines, counts } = await exported();
    expect(counts).toEqual({ name: null, exported: 3, errored: 1, cut: 1, withoutTokens: 1, unplayed: 0, unselected: 0, notes: [] });
    expect((await rollouts(lines)).map((r) => r.rollout_id).toSorted()).toEqual(['3/0', '4/0', '5/0']);
  });

  it('leaves rollouts in which the policy wrote nothing out of supervised rows, before it selects the best', async () => {
    await recordEvaluation(sumsOptions(directory));
    const path = join(directory, 'results.jsonl');
    const lost = (line: string) => {
      const result = JSON.parse(line) as { rollout_id: string; token_usage: { output_tokens: number } };
      if (result.rollout_id === '1/0') result.token_usage.output_tokens = 0;
      return JSON.stringify(result);
    };
    await writeFile(path, `${(await readFile(path, 'utf8')).trimEnd().split('\n').map(lost).join('\n')}\n`);
    const whole = await exported();
    const lines: string[] = [];
    const counts = await exportRun(directory, async (line) => void lines.push(line), { asDemonstrations: true, best: 1 });
    expect(counts).toMatchObject({ exported: whole.lines.length - 1, unplayed: 1, unselected: 0 });
    expect(lines.every((line) => (JSON.parse(line) as { loss_mask: number[] }).loss_mask.includes(1))).toBe(true);
  });

  it('says which line of the tokens is cut off', async () => {
    await recordEvaluation(sumsOptions(directory, { numExamples: 2 }));
    const path = join(directory, 'tokens.jsonl');
    await writeFile(path, (await readFile(path, 'utf8')).slice(0, -50));
    expect((await exported()).counts).toMatchObject({
      withoutTokens: 1,
      notes: [expect.stringMatching(/^line \d+ of \S+tokens\.jsonl is cut off, so what it records is lost$/)],
    });
  });

  it('never meets a log-prob that is not finite: such a rollout is an error', async () => {
    await recordEvaluation(
      sumsOptions(directory, { client: sumsClient({ logProb: (i, _id, turn) => (turn.key === '2/0' ? [NaN, -Infinity][i % 2]! : -1) }) }),
    );
    const { counts, lines } = await exported();
    expect(counts).toEqual({ name: null, exported: 5, errored: 1, cut: 0, withoutTokens: 0, unplayed: 0, unselected: 0, notes: [] });
    expect(lines.join('')).not.toMatch(/NaN|Infinity/);
  });

  it('reads the directory of a run that was just killed', async () => {
    await recordEvaluation(sumsOptions(directory));
    await appendFile(join(directory, 'tokens.jsonl'), '{"rollout_id":"7/0","token_ids":[1,2');
    await appendFile(join(directory, 'results.jsonl'), '{"example_id":7');
    expect((await exported()).counts).toMatchObject({ exported: 6 });
  });

  it('says that a chat run has no tokens, and that a directory is not a run', async () => {
    await recordEvaluation(sumsOptions(join(directory, 'chat'), { client: sumsClient({ kind: 'chat' }) }));
    await expect(exported(join(directory, 'chat'))).rejects.toThrow(
      /was played in chat mode \(scripted\), so it has no token ids or log-probs to export\. .*-p embedded.*--dry-run/,
    );
    await expect(exported(join(directory, 'none'))).rejects.toThrow(/The directory .*none does not exist/);
    await mkdir(join(directory, 'empty'));
    await expect(exported(join(directory, 'empty'))).rejects.toThrow(/empty is not a run directory: it has no metadata\.json/);
    await writeFile(join(directory, 'empty/run.json'), '{}');
    await expect(exported(join(directory, 'empty'))).rejects.toThrow(/empty is a training run; name the results folder of an evaluation/);
  });
});

describe('unselectedIds', () => {
  it('keeps rewards from the lowest one up, and the best of each group, the first of equal ones', () => {
    const rewards = [0.5, 1, 0.25, 1, 0.5, 0.75];
    const heads = rewards.map((reward, index) => ({ rollout_id: `r${index}`, group_id: index < 4 ? 'a' : 'b', reward, index }));
    expect(unselectedIds(heads, { minReward: 0.5 })).toEqual(['r2']);
    expect(unselectedIds(heads, { best: 1 })).toEqual(['r0', 'r2', 'r3', 'r4']);
    expect(unselectedIds(heads, { minReward: 0.75, best: 2 })).toEqual(['r0', 'r2', 'r4']);
    expect(unselectedIds(heads, {})).toEqual([]);
  });
});

describe('readRollouts', () => {
  it.each<[string, (rollout: RolloutExport) => object, RegExp]>([
    ['a missing field', (r) => ({ ...r, reward: undefined }), /: it must have the key "reward"\. Give lines that vf-export wrote\.$/],
    ['an unknown field', (r) => ({ ...r, extra: 1 }), /: it must not have the key "extra"\. Give lines/],
    ['a short mask', (r) => ({ ...r, loss_mask: r.loss_mask.slice(1) }), /loss_mask has 35 items for 36 tokens/],
    ['a log-prob on a given token', (r) => ({ ...r, logprobs: [-1, ...r.logprobs.slice(1)] }), /logprobs\[0\] is -1 where loss_mask is 0/],
    ['a sampled token without one', (r) => ({ ...r, logprobs: r.logprobs.map(() => null) }), /logprobs\[14\] is null where loss_mask is 1/],
    ['segments with a gap', (r) => ({ ...r, segments: r.segments.slice(1) }), /segments\[0\] is \[14, 18\) after 0/],
    ['a wrong prompt length', (r) => ({ ...r, prompt_length: 13 }), /prompt_length is 13 for a prompt of 14 tokens/],
    ['a null reward', (r) => ({ ...r, reward: null }), /reward must be a number\. Give lines/],
  ])('refuses %s and names the line', async (_, change, message) => {
    await recordEvaluation(sumsOptions(directory, { numExamples: 1 }));
    const { lines } = await exported();
    const broken = `${JSON.stringify(change(JSON.parse(lines[0]!) as RolloutExport))}\n`;
    await expect(rollouts([lines[0]!, broken])).rejects.toThrow(new RegExp(`Line 2 of .*${message.source}`));
  });

  it('says that there is no such file', async () => {
    await expect(readRollouts(join(directory, 'none.jsonl')).next()).rejects.toThrow(/The file .*none\.jsonl does not exist/);
  });
});

describe('exportProblem', () => {
  it('finds no problem in a correct rollout, and one after any single bit of its mask is flipped', async () => {
    await recordEvaluation(sumsOptions(directory, { numExamples: 1 }));
    const rollout = JSON.parse((await exported()).lines[0]!) as RolloutExport;
    expect(exportProblem(rollout)).toBeNull();
    fc.assert(
      fc.property(fc.integer({ min: 0, max: rollout.loss_mask.length - 1 }), (at) => {
        const flipped = rollout.loss_mask.map((bit, i) => (i === at ? (bit === 1 ? 0 : 1) : bit));
        const logprobs = rollout.logprobs.map((value, i) => (i === at ? (value === null ? -1 : null) : value));
        expect(exportProblem({ ...rollout, loss_mask: flipped })).not.toBeNull();
        expect(exportProblem({ ...rollout, loss_mask: flipped, logprobs })).not.toBeNull();
      }),
    );
  });
});
