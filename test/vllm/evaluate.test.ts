import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { NANO_MODEL } from '../loopback/vllm-client.ts';
import { largestLogProbError } from './prompt-logprobs.ts';
import { type ServedModel, serveModel, serveNano } from './serve.ts';

const ROOT = join(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'vf-vllm-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** The fields of `--json` and of an exported rollout that are read here; docs/ describes all of them. */
interface Summary {
  readonly directory: string;
  readonly rollouts: Readonly<Record<'planned' | 'recorded' | 'finished' | 'errored', number>>;
  readonly errors: Readonly<Record<string, number>>;
  readonly prefix_breaks: number;
  readonly stop_conditions: Readonly<Record<string, number>>;
  readonly roles?: Readonly<Record<string, { readonly calls: number; readonly failures: number; readonly tokens: { readonly output: number } }>>;
}
interface Rollout {
  readonly token_ids: readonly number[];
  readonly loss_mask: readonly number[];
  readonly logprobs: readonly (number | null)[];
  readonly segments: readonly { readonly kind: string; readonly start: number; readonly end: number }[];
  readonly stop_condition: string;
  readonly is_truncated: boolean;
}

/** Runs a command of the package as a user does; its output. */
async function run(command: string, ...args: readonly string[]): Promise<string> {
  const path = join(ROOT, 'bin', `${command}.js`);
  const { stdout } = await promisify(execFile)(process.execPath, [path, ...args], { cwd: folder, maxBuffer: 64 * 2 ** 20 });
  return stdout;
}

/** Evaluates an environment, exports, and reads both back. */
async function evaluate(
  { url, model = NANO_MODEL }: { readonly url: string; readonly model?: string },
  environment: string,
  ...args: readonly string[]
): Promise<{ summary: Summary; rollouts: Rollout[] }> {
  const summary = JSON.parse(await run('vf-eval', environment, '-b', url, '-m', model, '-o', folder, '--json', ...args)) as Summary;
  const file = join(summary.directory, 'rollouts.jsonl');
  await run('vf-export', summary.directory, '-o', file);
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  return { summary, rollouts: lines.map((line) => JSON.parse(line) as Rollout) };
}

/** Largest difference between recorded log-probs and the server's own prompt_logprobs, one rollout after the other. */
async function judge(url: string, rollouts: readonly Rollout[], model = NANO_MODEL): Promise<{ error: number; tokens: number }> {
  let worst = { error: 0, tokens: 0 };
  for (const { token_ids: ids, loss_mask: mask, logprobs: logProbs } of rollouts) {
    const { error, tokens } = await largestLogProbError(url, model, { ids, mask, logProbs });
    worst = { error: Math.max(worst.error, error), tokens: worst.tokens + tokens };
  }
  return worst;
}

interface Played {
  readonly environment: string;
  readonly args: Readonly<Record<string, unknown>>;
  /** A folder of models/ with a server of its own. @default nano-base, on the suite's server */
  readonly model?: string;
  readonly flags?: readonly string[];
}

/** With the prompt and the passages that the model was taught. The model of search-o1 also refines, which nobody taught it: it writes anything. */
const FACT_WORLD: readonly Played[] = [
  { environment: 'search-r1', args: { dataset: 'fact-world', corpus: 'fact-world' } },
  { environment: 'grpo-000', args: { dataset: 'fact-world', prompt: 'search-r1', max_obs_length: 500 } },
  {
    environment: 'search-o1',
    args: { dataset: 'fact-world', topk: 3, max_response_length: 64, max_refine_length: 32, refine_temperature: 1 },
    model: 'nano-o1',
    flags: ['--role', 'refiner=policy'],
  },
];

describe.each(FACT_WORLD)('vf-eval $environment over the fact world, played by a real vLLM', ({ environment, args, model, flags = [] }) => {
  let server: ServedModel | undefined;
  let url = inject('vllmUrl');
  let summary: Summary;
  let rollouts: Rollout[];
  beforeAll(async () => {
    if (model !== undefined) ({ url } = server = await serveModel(`models/${model}`));
    // Two of each: a third of the rollouts search, so that the bound below holds by a wide margin.
    const policy = { url, ...(model === undefined ? {} : { model }) };
    ({ summary, rollouts } = await evaluate(policy, environment, '-n', '60', '-r', '2', '-a', JSON.stringify(args), ...flags));
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  it('finishes every rollout without an error or a prefix break', () => {
    expect(summary.rollouts).toEqual({ planned: 120, recorded: 120, finished: 120, errored: 0 });
    expect([summary.errors, summary.prefix_breaks]).toEqual([{}, 0]);
    expect(rollouts).toHaveLength(120);
  });

  it('has at least 12 rollouts that searched and read passages', () => {
    const read = rollouts.filter(({ segments }) => segments.some(({ kind, start, end }) => kind === 'observation' && end > start));
    expect(read.length).toBeGreaterThanOrEqual(12);
  });

  it.runIf(environment === 'search-o1')('asks the same server to refine, and counts those tokens apart', () => {
    const { calls, failures, tokens } = summary.roles!['refiner']!;
    expect(calls).toBeGreaterThanOrEqual(12);
    expect(failures).toBe(0);
    expect(tokens.output).toBeGreaterThan(calls);
  });

  it("exports log-probs that are the server's own, within 1e-4 wherever the loss mask is 1", async () => {
    const { error, tokens } = await judge(url, rollouts, model);
    expect(tokens).toBeGreaterThan(1000);
    expect(error).toBeLessThan(1e-4);
  });

  it('masks what the policy did not write, and nothing else', () => {
    const wrong = rollouts.filter(({ loss_mask: mask, logprobs, segments }) => {
      const own = segments.flatMap(({ kind, start, end }) => Array.from({ length: end - start }, () => (kind === 'model' ? 1 : 0)));
      return own.join() !== mask.join() || logprobs.some((logProb, i) => (logProb === null) !== (mask[i] === 0));
    });
    expect(wrong).toEqual([]);
  });
});

describe('vf-eval search-r1 over nq-mini in a window of 512 tokens', () => {
  let server: ServedModel | undefined;
  let summary: Summary;
  let rollouts: Rollout[];
  beforeAll(async () => {
    const { url } = (server = await serveNano({ VF_VLLM_MAX_MODEL_LEN: '512' }));
    ({ summary, rollouts } = await evaluate({ url }, 'search-r1', '-n', '60', '-r', '2', '-t', '14', '-a', '{"max_turns":4}'));
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  it('stops with prompt_too_long where the window is full, and calls nothing an error', () => {
    expect(summary.rollouts).toMatchObject({ recorded: 120, errored: 0 });
    expect(summary.prefix_breaks).toBe(0);
    expect(summary.stop_conditions['prompt_too_long']).toBeGreaterThan(0);
    expect(Math.max(...rollouts.map(({ token_ids: ids }) => ids.length))).toBeGreaterThanOrEqual(512);
  });

  it('marks generations that a length ended as truncated', () => {
    const cutByLength = rollouts.filter((rollout) => rollout.is_truncated && rollout.stop_condition !== 'prompt_too_long');
    expect(cutByLength.length).toBeGreaterThan(0);
  });

  it("still records the server's own log-probs", async () => {
    const within = rollouts.filter(({ token_ids: ids }) => ids.length < 512);
    const { error, tokens } = await judge(server!.url, within);
    expect(tokens).toBeGreaterThan(100);
    expect(error).toBeLessThan(1e-4);
  });
});
