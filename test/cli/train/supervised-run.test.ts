/** Supervised runs by their commands, with Node alone: rejection sampling, a run without a policy server, a kill, the torch worker compared with the engine. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { skipReason, torchPython } from '../../trainer/gradients/torch/torch-python.ts';
import { runInProcess } from '../in-process.ts';

/** No program but Node can be called, and no server is named. */
const ALONE = { PATH: '/nonexistent', HOME: tmpdir(), VF_BASE_URL: '' };

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-sft-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

async function run(command: string, args: readonly string[], variables: Readonly<Record<string, string>> = ALONE) {
  const { code: status, stdout, stderr } = await runInProcess(command, args, { cwd: folder, env: variables });
  return { status, stdout, stderr };
}

interface Row {
  readonly kind: string;
  readonly step: number;
  readonly [metric: string]: unknown;
}

/** The folder of the only run below `parent`. */
const onlyRun = (parent: string) => join(folder, parent, 'train', readdirSync(join(folder, parent, 'train'))[0]!);
const rowsOf = (path: string): Row[] =>
  readFileSync(join(path, 'metrics.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Row);
const nllOf = (path: string) => rowsOf(path).flatMap(({ kind, ['loss/sft/nll']: nll }) => (kind === 'step' ? [nll as number] : []));
const adapterOf = (path: string, step: number) =>
  readFileSync(join(path, `checkpoints/step-${String(step).padStart(6, '0')}/adapter/adapter_model.safetensors`));

/** Searches and answers about an invented world, as the environment would play them. */
function writeRows(name = 'rows.jsonl'): string {
  const rows = ['Abra', 'Belo', 'Cinta', 'Dorfa', 'Elmo', 'Farga', 'Gonto', 'Hilda'].map((town, i) => ({
    prompt: `Who is the mayor of ${town}?`,
    segments: [
      { kind: 'model', text: `<search> mayor of ${town}</search>` },
      { kind: 'environment', text: `<information>The mayor of ${town} is M${i}.</information>` },
      { kind: 'model', text: `<answer> M${i}</answer>` },
    ],
  }));
  writeFileSync(join(folder, name), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  return name;
}

/** An environment that opens no corpus. */
const WORLD = ['search-r1', '-a', '{"dataset":"fact-world","data_split":"train","topk":3}'];
const SFT = [...WORLD, '-m', 'nano-base', '--plain', '--lr', '0.002', '--set', 'lora.rank=8', '--set', 'lora.alpha=16', '--set', 'sft.batch_size=4'];
const UNSERVED = [...SFT, '--set', 'backend.kind=embedded', '--set', 'backend.threads=1'];

describe('vf-train --sft', () => {
  it('takes one pass over the rows without a policy server, says that nothing is evaluated, and the adapter is sampled from', async () => {
    const { status, stderr } = await run('vf-train', [...UNSERVED, '--sft', writeRows(), '-o', 'a']);
    expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
    expect(stderr).toMatch(/Nothing is evaluated, because this run has no policy server/);
    const path = onlyRun('a');
    expect(rowsOf(path).map(({ kind, step }) => `${kind} ${step}`)).toEqual(['step 1', 'step 2']);
    expect(readFileSync(join(path, 'config.toml'), 'utf8')).toMatch(/steps = 2/);
    const evaluated = await run('vf-eval', [
      'search-r1',
      '-p',
      'embedded',
      '-m',
      join(path, 'checkpoints/step-000002/adapter'),
      '-n',
      '2',
      '-o',
      'e',
    ]);
    expect(evaluated.status).toBe(0);
  });

  it('validates on held-out rows and keeps the best adapter', async () => {
    const args = ['--sft', writeRows(), '--steps', '4', '--set', 'sft.held_out=0.25', '--set', 'sft.validate_every=2', '-o', 'a'];
    const { status, stderr } = await run('vf-train', [...UNSERVED, ...args]);
    expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
    const path = onlyRun('a');
    const validations = rowsOf(path).filter(({ kind }) => kind === 'validation');
    expect(validations.map(({ step }) => step)).toEqual([0, 2, 4]);
    expect(validations.at(-1)!['validation_nll'] as number).toBeLessThan(validations[0]!['validation_nll'] as number);
    expect(readdirSync(join(path, 'best/adapter')).toSorted()).toEqual([
      'README.md',
      'adapter_config.json',
      'adapter_model.safetensors',
      'config.toml',
      'loss.png',
    ]);
    const card = readFileSync(join(path, 'best/adapter/README.md'), 'utf8');
    expect(card).toContain('It is the adapter with the lowest validation loss, after step 4 of 4.');
    expect(card).toMatch(/\| step \| loss \| validation loss \|\n\|---\|---\|---\|\n\| 0 \| – \| \d\.\d{3} \|\n/);
    expect(card).toContain('  - vf-search\n  - sft\n---');
  });

  it('goes on with more supervised steps, whether --sft is given again or not', { tags: 'long' }, async () => {
    const rows = writeRows();
    const started = await run('vf-train', [...UNSERVED, '--sft', rows, '-o', 'a']);
    expect(started.status).toBe(0);
    const path = onlyRun('a');
    const again = await run('vf-train', [...UNSERVED, '--sft', rows, '--steps', '3', '-o', 'a', '-R']);
    expect({ status: again.status, stderr: again.status === 0 ? '' : again.stderr }).toEqual({ status: 0, stderr: '' });
    const more = await run('vf-train', ['-R', path, '--steps', '4', '--plain']);
    expect({ status: more.status, stderr: more.status === 0 ? '' : more.stderr }).toEqual({ status: 0, stderr: '' });
    expect(rowsOf(path).map(({ kind, step }) => `${kind} ${step}`)).toEqual(['step 1', 'step 2', 'step 3', 'step 4']);
    // Without --steps the run is found too, and is at its end.
    const same = await run('vf-train', [...UNSERVED, '--sft', rows, '-o', 'a', '-R']);
    expect(same.stderr).not.toContain('found no run');
  });

  it('plays the environment between supervised steps where the engine samples', async () => {
    const args = ['--sft', writeRows(), '--embedded', '--set', 'evaluation.examples=4', '--set', 'evaluation.every=1', '-o', 'a'];
    const { status, stderr } = await run('vf-train', [...SFT, ...args]);
    expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
    const rows = rowsOf(onlyRun('a'));
    expect(rows.map(({ kind, step }) => `${kind} ${step}`)).toEqual(['evaluation 0', 'step 1', 'evaluation 1', 'step 2', 'evaluation 2']);
    expect(rows.filter(({ kind }) => kind === 'evaluation').map((row) => row['policy_version'])).toEqual([0, 1, 2]);
  });

  it('refuses a token id that the model does not have, with its line', async () => {
    writeFileSync(join(folder, 'ids.jsonl'), '{"token_ids": [1, 2], "loss_mask": [0, 1]}\n{"token_ids": [1, 99999], "loss_mask": [0, 1]}\n');
    const { status, stderr } = await run('vf-train', [...UNSERVED, '--sft', 'ids.jsonl', '-o', 'a']);
    expect([status, stderr]).toEqual([2, expect.stringMatching(/ids\.jsonl:2 has the token id 99999, but those of the trained model are 0 to \d+;/)]);
  });

  it('refuses what cannot be learned in one line, before anything is written', async () => {
    writeFileSync(join(folder, 'bad.jsonl'), '{"prompt": "a"}\n');
    mkdirSync(join(folder, 'folder'));
    for (const [args, message] of [
      [
        ['--sft', 'bad.jsonl'],
        /^vf-train: .*bad\.jsonl:1 is not a supervised row: in addition to prompt it needs either segments or completion.*\n$/,
      ],
      [['--sft', 'folder'], /^vf-train: .*folder is a folder; name a file in it\n$/],
      [['--sft', 'missing.jsonl'], /^vf-train: The file .*missing\.jsonl does not exist; name a file of supervised rows/],
      [['--sft', writeRows(), '--set', 'evaluation.every=1'], /^vf-train: No policy server is named;/],
    ] as const) {
      const { status, stderr } = await run('vf-train', [...UNSERVED, ...args, '-o', 'a']);
      expect(stderr).toMatch(message);
      expect(status).toBe(2);
      expect(readdirSync(folder)).not.toContain('a');
    }
  });

  // Skipped without a Python that has torch; the title then says how to install one. VF_REQUIRE_TORCH=1 makes that a failure.
  it.skipIf(torchPython.path === null)(
    `has the same loss curve with torch as with the engine${skipReason}`,
    { tags: 'long', timeout: 240_000 },
    async () => {
      const rows = writeRows();
      expect((await run('vf-train', [...UNSERVED, '--sft', rows, '-o', 'start'])).status).toBe(0);
      const from = ['--sft', rows, '--steps', '6', '--set', `model.initial_adapter=${join(onlyRun('start'), 'checkpoints/step-000002/adapter')}`];
      expect((await run('vf-train', [...UNSERVED, ...from, '-o', 'engine'])).status).toBe(0);
      const torch = ['--python', torchPython.path!, '--set', 'backend.device=cpu', '--set', 'backend.dtype=float32', '-o', 'torch'];
      const { status, stderr } = await run('vf-train', [...SFT, ...from, ...torch], { ...(process.env as Record<string, string>), VF_BASE_URL: '' });
      expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
      const [engine, other] = [nllOf(onlyRun('engine')), nllOf(onlyRun('torch'))];
      expect(engine).toHaveLength(6);
      for (const [i, nll] of engine.entries()) expect(Math.abs(nll - other[i]!)).toBeLessThan(1e-4);
      expect(engine.at(-1)).toBeLessThan(engine[0]!);
    },
  );
});

describe('vf-export --sft and vf-train --rollouts', () => {
  it('turn an evaluation into supervised rows and into rollouts to train on', async () => {
    const evaluated = await run('vf-eval', [
      ...WORLD,
      '-p',
      'embedded',
      '-m',
      'nano-base',
      '-n',
      '12',
      '-r',
      '4',
      '-T',
      '1',
      '--max-tokens',
      '64',
      '-o',
      'e',
    ]);
    expect(evaluated.status).toBe(0);
    const evals = join(folder, 'e/evals');
    const [model] = readdirSync(evals);
    const directory = join(evals, model!, readdirSync(join(evals, model!))[0]!);
    const exported = async (name: string, ...flags: string[]) => {
      const { status, stderr } = await run('vf-export', [directory, ...flags, '-o', name]);
      expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
      return readFileSync(join(folder, name), 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as { reward: number; group_id: string; token_ids: number[]; loss_mask: number[] });
    };
    const all = await exported('all.jsonl');
    const good = await exported('good.jsonl', '--sft', '--min-reward', '0.5', '--best', '1');
    expect(all).toHaveLength(48);
    expect(good.length).toBeGreaterThan(0);
    expect(good.every(({ reward }) => reward >= 0.5)).toBe(true);
    expect(new Set(good.map(({ group_id: group }) => group)).size).toBe(good.length);
    expect(Object.keys(good[0]!)).not.toContain('logprobs');

    const supervised = await run('vf-train', [...UNSERVED, '--sft', 'good.jsonl', '--steps', '2', '-o', 's']);
    expect({ status: supervised.status, stderr: supervised.status === 0 ? '' : supervised.stderr }).toEqual({ status: 0, stderr: '' });
    expect(rowsOf(onlyRun('s'))[0]!['demonstrations']).toBe(4);

    const theirs = ['--rollouts', 'all.jsonl', '-n', '6', '-r', '4', '-o', 'r'];
    const given = await run('vf-train', [...UNSERVED, ...theirs]);
    expect({ status: given.status, stderr: given.status === 0 ? '' : given.stderr }).toEqual({ status: 0, stderr: '' });
    const rows = rowsOf(onlyRun('r'));
    expect(rows.map(({ rollouts, groups }) => [rollouts, groups])).toEqual([
      [24, 6],
      [24, 6],
    ]);
    for (const [flag, name] of [
      ['--sft', 'good.jsonl'],
      ['--rollouts', 'all.jsonl'],
    ] as const) {
      const other = readFileSync(join(folder, name), 'utf8').replaceAll(/"tokenizer_hash":"sha256:/g, '"tokenizer_hash":"sha256:0');
      writeFileSync(join(folder, 'other.jsonl'), other);
      const refused = await run('vf-train', [...UNSERVED, flag, 'other.jsonl', '-n', '6', '-r', '4', '-o', 'o']);
      expect([refused.status, refused.stderr]).toEqual([2, expect.stringMatching(/other\.jsonl:1 holds token ids of another tokenizer/)]);
    }
    // The base sampled them: at the first step, trainer and sampler agree to the bit.
    expect(rows[0]!['log_prob_difference_max']).toBe(0);
    expect(adapterOf(onlyRun('r'), 2).length).toBeGreaterThan(1000);
  });

  it('refuse a reward and a number that are none', async () => {
    for (const flags of [
      ['--min-reward', 'much'],
      ['--best', '0'],
      ['--best', '1.5'],
    ]) {
      const { status, stderr } = await run('vf-export', ['nowhere', '--sft', ...flags, '-o', 'x']);
      expect([status, stderr.split('\n').length]).toEqual([2, 2]);
      expect(stderr).toMatch(new RegExp(`${flags[0]} must be`));
    }
  });
});
