/** `--dry-run` of vf-train and vf-eval against a server that answers: this package's own. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type PolicyServer, startPolicyServer } from '../../src/server/policy/start-policy-server.ts';
import { refusingUrl } from '../transport/loopback.ts';
import { NANO_ADAPTER, writeAdapter } from '../trainer/publisher/adapter-files.ts';
import { TemporaryFolder } from './eval/temporary-folder.ts';
import { runInProcess } from './in-process.ts';
import { fakeNvidiaSmi } from './train/fake-nvidia-smi.ts';

const MODEL = join(import.meta.dirname, '../models/nano-base');
const KEY = 'sk-hidden-1234567';
const WINDOW = 256;

/** Six rows to train on and three to evaluate, of which `long` have a prompt of about 300 tokens. */
const ENVIRONMENT = `
import { Dataset, Rubric, SingleTurnEnv } from 'vf-search';
const rows = (name, count, long) => new Dataset(name, Array.from({ length: count }, (_, i) => (
  { exampleId: i, prompt: [{ role: 'user', content: i < long ? 'Who? '.repeat(150) : 'Who?' }], answer: 'I' })));
export function loadEnvironment({ long = 0, longHeld = 0, held = 3 }) {
  return new SingleTurnEnv({ id: 'sized', train: rows('train', 6, long), eval: rows('held', held, longHeld),
    rubric: new Rubric({ funcs: [function one() { return 1; }] }) });
}`;

const folder = mkdtempSync(join(tmpdir(), 'vf-dry-run-'));
const environment = join(folder, 'sized.mjs');
writeFileSync(environment, ENVIRONMENT);
let server: PolicyServer;
beforeAll(async () => {
  const { signal } = new AbortController();
  server = await startPolicyServer({ apiKey: KEY, maxLoraRank: 8, open: { modelPath: MODEL, maxModelLen: WINDOW, threads: 1, signal } });
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

interface Asked {
  readonly args?: object;
  readonly flags?: readonly string[];
  readonly key?: string;
  readonly url?: string;
}

async function dryRun(command: 'vf-train' | 'vf-eval', { args = {}, flags = [], key = KEY, url = `${server.url}/v1` }: Asked = {}) {
  const own = command === 'vf-train' ? ['-m', MODEL, '-n', '2', '--rank', '8', '--set', 'backend.kind="embedded"'] : ['-p', 'vllm', '-n', '-1'];
  const words = [environment, ...own, '-b', url, '-k', 'POLICY_KEY', '-a', JSON.stringify(args), '--dry-run', ...flags];
  const { code, stdout, stderr } = await runInProcess(command, words, { cwd: folder, env: { POLICY_KEY: key, HOME: folder } });
  expect(stdout + stderr).not.toContain(KEY);
  expect(readdirSync(folder)).toEqual(['sized.mjs']);
  return { code, said: stderr, checked: stdout.slice(stdout.indexOf('\nChecked\n')).replaceAll(/\n {22}/g, ' ') };
}

describe('vf-train --dry-run', () => {
  it('says what it checked of the server, the rows, the prompts and the disk, and writes nothing', async () => {
    const { code, checked } = await dryRun('vf-train', { flags: ['--wandb', 'searcher'] });
    expect(code).toBe(0);
    expect(checked).toMatch(/^ok +rows +6 rows to train on, 3 for evaluation, each with an id of its own$/m);
    expect(checked).toMatch(/^ok +server +\S+ serves nano-base, with the key of POLICY_KEY$/m);
    expect(checked).toMatch(/^ok +limits +rank up to 8, /m);
    expect(checked).toMatch(/^ok +prompts +the longest of 6 training rows has \d+ tokens of a window of 256$/m);
    expect(checked).toMatch(/^ok +prompts +the longest of 3 evaluation rows /m);
    expect(checked).toMatch(/^ok +disk +\S+ \S+ free for outputs; the run needs about /m);
    expect(checked).toMatch(/^ok +wandb +project searcher: /m);
    expect(checked).toMatch(/\nNothing is missing[^\n]*\n$/);
  });

  it.each<[string, Asked, RegExp]>([
    ['a rank above the limit of the server', { flags: ['--rank', '16'] }, /^missing +limits +rank up to 8, .*the run needs rank 16/m],
    [
      'a model that the server does not have',
      { flags: ['--server-model', 'other'] },
      /^missing +server +.* does not serve other\. It serves nano-base/m,
    ],
    ['a key that the server rejects', { key: 'sk-other-1234567' }, /^missing +server +.*rejected the API key.*check the key in POLICY_KEY/m],
    [
      'max_tokens that no generation can have',
      { flags: ['-t', '256'] },
      /^missing +window +256 tokens for prompt and generation; rollouts\.max_tokens alone is 256/m,
    ],
    [
      'prompts that all exceed the window',
      { args: { long: 6 } },
      /^missing +prompts +no training row leaves the policy room for a token, so nothing can be played\. /m,
    ],
    ['a folder that is a file', { flags: ['-o', environment] }, /^missing +disk +\S+sized\.mjs is not a folder, so nothing can be written/m],
    [
      'a Python that does not exist',
      { flags: ['--set', 'backend.kind="torch"', '--python', '/nowhere/python'] },
      /^missing +python +Could not run the Python \/nowhere\/python: .* Set backend\.python \(--python\) to a Python with torch, /m,
    ],
    [
      'a disk without room',
      { flags: ['-o', '/proc/1/outputs'] },
      /^missing +disk +\/proc\/1 may not be written to, so nothing can be written to \/proc\/1\/outputs /m,
    ],
  ])('exits with 2 for %s', async (_, asked, line) => {
    const { code, checked } = await dryRun('vf-train', asked);
    expect(checked).toMatch(line);
    expect(code).toBe(2);
  });

  it('refuses what the run refuses before its first batch, in its words', async () => {
    const rows = join(folder, 'rows.jsonl');
    const refused: readonly (readonly [readonly string[], RegExp])[] = [
      [['-a', '{"held": 0}'], /held has no rows to evaluate\. Set environment\.eval_args \(--eval-args\) to arguments with which it has rows/],
      [['--set', `sft.data="${rows}"`, '--set', 'sft.steps=1'], /rows\.jsonl/],
      [['--set', 'source="./no.mjs"'], /no\.mjs/],
    ];
    for (const [flags, line] of refused) {
      const { code, said } = await dryRun('vf-train', { flags });
      expect([code, said]).toEqual([2, expect.stringMatching(line)]);
    }
  });

  it('exits with 2 where no server answers, and still measures the prompts by the tokenizer of the folder', async () => {
    const { code, checked } = await dryRun('vf-train', { url: `${await refusingUrl()}/v1` });
    expect(checked).toMatch(/^missing +server +.* did not answer: /m);
    expect(checked).toMatch(/^ok +prompts +the longest of 6 training rows has \d+ tokens of a window of 2,048$/m);
    expect(code).toBe(2);
  });

  it('counts the rows whose prompts exceed the window, which is no reason to refuse the run', async () => {
    const { code, checked } = await dryRun('vf-train', { args: { long: 2, longHeld: 1 } });
    expect(checked).toMatch(
      /^warning +prompts +2 of 6 training rows leave the policy no room for a token and are not played\. The prompt has \d+ tokens, and the model's window 256/m,
    );
    expect(checked).toMatch(/^warning +prompts +1 of 3 evaluation rows leave /m);
    expect(code).toBe(0);
  });

  it('says what it could not ask: a server that the run starts, and a price without a GPU', async () => {
    const words = [environment, '-m', MODEL, '-n', '2', '--launch', '--dry-run', '--gpu-price', '2'];
    const { code, stdout } = await runInProcess('vf-train', words, { cwd: folder, env: { HOME: folder, PATH: '' } });
    expect(stdout).toMatch(/^skipped +server +not asked: the run starts its own vLLM/m);
    expect(stdout).toMatch(/^The price is not known: /m);
    // Without PATH there is no Python, neither for the worker nor for vLLM.
    expect(stdout).toMatch(/^missing +python /m);
    expect(stdout).toMatch(/^missing +vllm /m);
    expect(code).toBe(2);
  });

  it('sums tokens, GPU hours and their price over the runs of an ablation', { tags: 'long' }, async () => {
    using own = new TemporaryFolder();
    const tools = join(own.path, 'tools');
    mkdirSync(tools);
    fakeNvidiaSmi(tools, [{ gib: 80 }]);
    const base = `steps = 5\n[environment]\nid = "search-r1"\nargs = { dataset = "fact-world" }\n[model]\npath = "${MODEL}"\n[policy.launch]\n`;
    own.write('one.toml', base);
    own.write('three.toml', `${base}[[ablation]]\nseeds = 3\n`);
    const play = (...words: readonly string[]) =>
      runInProcess('vf-train', [...words, '--dry-run', '--gpu-price', '2'], {
        cwd: own.path,
        env: { HOME: own.path, PATH: `${tools}:/usr/bin:/bin` },
      });
    const [one, all] = [await play('one.toml'), await play('three.toml', '--json')];
    const [, price] = /, 5 steps .+, \$(\S+) on 1 GPU/.exec(one.stdout)!;
    const [ablation] = (JSON.parse(all.stdout) as { ablations: { usd: number; gpu_hours: number; most_tokens: number | null }[] }).ablations;
    expect(ablation!.usd / 3 / Number(price)).toBeCloseTo(1, 1);
    expect(ablation!.gpu_hours).toBeCloseTo(ablation!.usd / 2, 9);
  });

  it('finds supervised rows beyond the window before anything starts, as the run does', async () => {
    using own = new TemporaryFolder();
    const row = (i: number) => JSON.stringify({ prompt: 'Who? ', completion: 'I '.repeat(i < 2 ? 1 : 3000) });
    const said = async (rows: readonly number[], ...flags: readonly string[]) => {
      own.write('rows.jsonl', rows.map(row).join('\n'));
      const words = [environment, '-m', MODEL, '--steps', '0', '--sft', 'rows.jsonl', '--set', 'sft.steps=1', '--plain', ...flags];
      // A backend that cannot start.
      const { code, stderr } = await runInProcess('vf-train', [...words, '--set', 'backend.kind="torch"', '--python', '/nowhere/python'], {
        cwd: own.path,
        env: { HOME: own.path },
      });
      return { code, stderr };
    };
    const all = { code: 2, stderr: expect.stringMatching(/Every supervised row is longer than 2,048 tokens; shorten the rows$/m) };
    expect(await said([2, 3], '--dry-run')).toEqual(all);
    expect(await said([2, 3])).toEqual(all);
    const some = expect.stringMatching(/left out 2 of 3 supervised rows: longer than 2,048 tokens$/m);
    expect((await said([1, 2, 3], '--dry-run')).stderr).toEqual(some);
    const { stderr } = await said([1, 2, 3]);
    expect(stderr).toEqual(some);
    expect(stderr).toMatch(/\/nowhere\/python/);
  });

  it('passes an adapter of the base, and names what does not fit in one of another', async () => {
    const adapter = join(mkdtempSync(join(tmpdir(), 'vf-dry-adapter-')), 'adapter');
    const wanted = ['--rank', '4', '--set', 'lora.alpha=8', '--set', `model.initial_adapter="${adapter}"`];
    const config = { base_model_name_or_path: MODEL };
    writeAdapter(adapter, { config });
    const { code, checked } = await dryRun('vf-train', { flags: wanted });
    expect(checked).toMatch(/^ok +adapter +\S+, rank 4, fits nano-base$/m);
    expect(code).toBe(0);
    rmSync(adapter, { recursive: true });
    const half = NANO_ADAPTER.modules.map((module) => ({ ...module, inFeatures: module.inFeatures / 2 }));
    writeAdapter(adapter, { adapter: { ...NANO_ADAPTER, modules: half }, config });
    const { code: refused, said } = await dryRun('vf-train', { flags: wanted });
    expect(said).toMatch(/must have shape \[\d+, \d+\], got \[\d+, \d+\]; check that the adapter belongs to this model and rank$/m);
    expect(refused).toBe(2);
    rmSync(adapter, { recursive: true });
  });

  it('does not say that it checked a model of the hub for which it did not ask', async () => {
    const { checked } = await dryRun('vf-train', { flags: ['--set', 'backend.kind="torch"', '-m', 'me/unheard-of'] });
    expect(checked).toMatch(/^warning +model .*The hub was not asked: the run downloads the model from there at its start \(of unknown size\)/m);
    expect(checked).toMatch(/^skipped +disk /m);
    expect(checked).not.toMatch(/^ok +(model|disk|adapter) /m);
  });
});

describe('vf-eval --dry-run', () => {
  it('says what it checked of the server, the prompts, the disk and the price', async () => {
    const { code, checked } = await dryRun('vf-eval');
    expect(checked).toMatch(/^ok +rows +3 to play/m);
    expect(checked).toMatch(/^ok +server +\S+ serves nano-base \(by token ids, window of 256 tokens, with the key of POLICY_KEY\)$/m);
    expect(checked).toMatch(/^ok +prompts +the longest of 3 evaluation rows has \d+ tokens of a window of 256$/m);
    expect(checked).toMatch(/^ok +disk +/m);
    expect(checked).toMatch(/^ok +price +none: no model costs anything$/m);
    expect(code).toBe(0);
  });

  it('counts the rows whose prompts exceed the window, and exits with 2 where no row can be played', async () => {
    expect(await dryRun('vf-eval', { args: { longHeld: 1 } })).toMatchObject({
      code: 0,
      checked: expect.stringMatching(/^warning +prompts +1 of 3 evaluation rows/m),
    });
    expect(await dryRun('vf-eval', { args: { longHeld: 3 } })).toMatchObject({
      code: 2,
      checked: expect.stringMatching(/^missing +prompts +no evaluation row/m),
    });
  });

  it('asks the hub whether the push can succeed', async () => {
    const { code, said } = await dryRun('vf-eval', { flags: ['--push', 'me/results'] });
    expect(said).toMatch(/Pushing to me\/results needs a token with write access/);
    expect(code).toBe(2);
  });
});
