import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { EvaluationFolder, type EvaluationSummary, judge, type RecordedRollout } from './evaluation-process.ts';
import { type ServedModel, serveModel, serveNano } from './serve.ts';

const folder = new EvaluationFolder();
afterAll(() => folder[Symbol.dispose]());

interface Played {
  readonly environment: string;
  readonly args: Readonly<Record<string, unknown>>;
  /** A folder of packages/vf-search-models/models with a server of its own. @default nano-base, on the suite's server */
  readonly model?: string;
  readonly flags?: readonly string[];
}

/** With the prompt and the passages that the model was taught. */
const FACT_WORLD: readonly Played[] = [
  { environment: 'search-r1', args: { dataset: 'fact-world', corpus: 'fact-world' } },
  { environment: 'grpo-000', args: { dataset: 'fact-world', prompt: 'search-r1', max_obs_length: 500 } },
];
/** The model of search-o1 also refines, which nobody taught it: it writes anything. */
const OWN_SERVER: readonly Played[] = [
  {
    environment: 'search-o1',
    args: { dataset: 'fact-world', topk: 3, max_response_length: 64, max_refine_length: 32, refine_temperature: 1 },
    model: 'nano-o1',
    flags: ['--role', 'refiner=policy'],
  },
];

describe.each(FACT_WORLD)('vf-eval $environment over the fact world, played by a real vLLM', (played) => {
  playsFactWorld(played);
});
describe.each(OWN_SERVER)('vf-eval $environment with a server of its own', { tags: 'long' }, (played) => {
  playsFactWorld(played);
});

function playsFactWorld({ environment, args, model, flags = [] }: Played): void {
  let server: ServedModel | undefined;
  let url = inject('vllmUrl');
  let summary: EvaluationSummary;
  let rollouts: RecordedRollout[];
  beforeAll(async () => {
    if (model !== undefined) ({ url } = server = await serveModel(`packages/vf-search-models/models/${model}`));
    // Two of each: a third of the rollouts search, so that the bound below holds by a wide margin.
    const policy = { url, ...(model === undefined ? {} : { model }) };
    ({ summary, rollouts } = await folder.evaluate(policy, environment, '-n', '60', '-r', '2', '-a', JSON.stringify(args), ...flags));
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
}

describe('vf-eval search-r1 over nq-mini in a window of 512 tokens', () => {
  let server: ServedModel | undefined;
  let summary: EvaluationSummary;
  let rollouts: RecordedRollout[];
  beforeAll(async () => {
    const { url } = (server = await serveNano({ VF_VLLM_MAX_MODEL_LEN: '512' }));
    ({ summary, rollouts } = await folder.evaluate({ url }, 'search-r1', '-n', '60', '-r', '2', '-t', '14', '-a', '{"max_turns":4}'));
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
