/** verl 0.9.1: its agent loop over `vf-serve environment`, without Ray, against the export of our vf-eval. */
import { expect, it } from 'vitest';
import type { RolloutExport } from '../../src/schemas/rollout-export.ts';
import { serveWithoutRetriever } from './down-retriever.ts';
import { ownRun, ROOT } from './own-run.ts';
import { describePeer, resultLine, runPeer, servedModel } from './peer.ts';
import { REWARD, rewardingServer, SHOWN, talkingTokens, TURN_REWARDS } from './rewarding-talk.ts';
import { serveCommand } from './serve-command.ts';

const DATASETS = ['fact-world', 'nq-mini'] as const;
const ROWS = 20;
const RESPONSE_LENGTH = 1536;
const CUT = 12;

interface Output {
  readonly example_id: string;
  readonly error: string | null;
  readonly num_turns: number;
  readonly extra: {
    readonly reward_extra_info: Readonly<Record<string, number>>;
    readonly stop_condition: string;
    readonly turn_scores: readonly (number | null)[];
    readonly min_global_steps: number;
    readonly max_global_steps: number;
  };
  readonly prompts: readonly number[];
  readonly responses: readonly number[];
  readonly response_mask: readonly number[];
  /** float32 */
  readonly rollout_log_probs: readonly number[];
  readonly rm_scores: readonly number[];
}

interface Run {
  readonly version: string;
  readonly outputs: readonly Output[];
  readonly sessions: number;
  readonly with_stops: number;
  readonly asked: number;
}

interface Asked {
  readonly env: unknown;
  readonly ids: readonly string[];
  readonly responseLength?: number;
  readonly hasStops?: boolean;
  /** @default the served nano-base */
  readonly model?: { readonly url: string };
}

async function agentLoop({ env, ids, responseLength = RESPONSE_LENGTH, hasStops = true, model }: Asked): Promise<Run> {
  const { url } = model ?? (await servedModel());
  const args = [ROOT, url, JSON.stringify(env), String(responseLength), String(hasStops), ...ids];
  return runPeer<Run>('verl', 'agent_loop', args, { timeoutMs: 280_000, cwd: ROOT });
}

/** Asserts that the output is the exported rollout, cut to `length` tokens of response; returns the largest difference of log-probs. */
function expectSame(output: Output, row: RolloutExport, length: number): number {
  const { prompt_length: start } = row;
  const kept = <T>(column: readonly T[]) => column.slice(start, start + length);
  const { prompts, responses, response_mask: mask, rollout_log_probs: logProbs, rm_scores: scores, extra } = output;
  expect({ error: output.error, prompts, responses, mask }).toEqual({
    error: null,
    prompts: row.token_ids.slice(0, start),
    responses: kept(row.token_ids),
    mask: kept(row.loss_mask),
  });
  expect(scores).toEqual(responses.map((_, i) => (i === responses.length - 1 ? row.reward : 0)));
  expect(extra).toMatchObject({ reward_extra_info: row.metrics, stop_condition: row.stop_condition, min_global_steps: 3, max_global_steps: 3 });
  expect(output.num_turns).toBe(row.segments.length);
  return Math.max(...kept(row.logprobs).map((value, i) => Math.abs((value ?? 0) - logProbs[i]!)));
}

describePeer('verl', { quick: false }, () => {
  it('verl’s data set reads the rows that python -m vf_search.verl_rows writes', async () => {
    interface Rows {
      readonly version: string;
      readonly count: number;
      readonly row: Readonly<Record<string, unknown>>;
    }
    const { version, count, row } = await runPeer<Rows>('verl', 'rows', [ROOT, 'search-r1', 'eval', '{"dataset": "fact-world"}'], {
      timeoutMs: 200_000,
    });
    expect(count).toBe(240);
    expect(row).toMatchObject({ agent_name: 'vf_search', split: 'eval', data_source: 'search-r1', example_id: 'fw_211_mayor_h', index: 0 });
    expect(row['raw_prompt']).toMatchObject([{ role: 'user', content: expect.stringContaining('Who is the mayor of Trafam?') as string }]);
    resultLine('verl RLHFDataset', version, 'rows of python -m vf_search.verl_rows', `${count} rows with agent_name and example_id`);
  });

  it.each(DATASETS)('the agent loop gives the ids, masks, log-probs and rewards of vf-export over %s', async (dataset) => {
    const { url, model } = await servedModel();
    const args = JSON.stringify({ dataset });
    using own = await ownRun(['search-r1', '-b', url, '-m', model, '-T', '0', '-n', String(ROWS), '-a', args]);
    const exported = await own.exported();
    await using server = await serveCommand(['environment', 'search-r1', '-a', args, '--tokenizer', 'nano-base']);
    const asked = { env: { train: 'http://127.0.0.1:9', eval: server.url }, ids: [...exported.keys()] };
    const [run, withoutStops] = [await agentLoop(asked), await agentLoop({ ...asked, hasStops: false })];
    let furthest = 0;
    for (const each of [run, withoutStops]) {
      expect([each.outputs.length, each.sessions]).toEqual([ROWS, ROWS]);
      for (const output of each.outputs) furthest = Math.max(furthest, expectSame(output, exported.get(output.example_id)!, RESPONSE_LENGTH));
    }
    expect([run.with_stops, withoutStops.with_stops]).toEqual([run.asked, 0]);
    expect(furthest).toBeLessThan(1e-5);
    const several = run.asked - ROWS;
    resultLine(
      'verl agent loop',
      run.version,
      `${ROWS} rows of ${dataset}, greedy, against vf-export`,
      `equal; largest difference of log-probs ${Number(furthest.toPrecision(2))}; ${several} further turns`,
    );
  });

  it('cuts the response at response_length, with its mask and log-probs, and serves the environment itself', async () => {
    const { url, model } = await servedModel();
    using own = await ownRun(['search-r1', '-b', url, '-m', model, '-T', '0', '-n', '4', '-t', '48']);
    const exported = await own.exported();
    const { outputs, version } = await agentLoop({ env: { eval: 'search-r1' }, ids: [...exported.keys()], responseLength: CUT });
    expect(outputs).toHaveLength(4);
    for (const output of outputs) {
      const { token_ids: ids, loss_mask: mask, prompt_length: start } = exported.get(output.example_id)!;
      const lengths = [output.responses, output.response_mask, output.rollout_log_probs, output.rm_scores].map((column) => column.length);
      expect([output.error, ...lengths]).toEqual([null, CUT, CUT, CUT, CUT]);
      expect([output.responses, output.response_mask]).toEqual([ids.slice(start, start + CUT), mask.slice(start, start + CUT)]);
    }
    resultLine('verl agent loop', version, `response_length ${CUT}`, `4 responses of ${CUT} tokens with mask and log-probs`);
  });

  it('has the rewards of the turns in turn_scores', async () => {
    await using server = await rewardingServer();
    await using model = await talkingTokens();
    const { outputs, version } = await agentLoop({ env: server.url, ids: ['row-0', 'row-1'], model });
    for (const { error, extra, rm_scores: scores } of outputs)
      expect([error, extra.turn_scores, scores.at(-1)]).toEqual([null, TURN_REWARDS, REWARD]);
    expect(outputs).toHaveLength(2);
    resultLine('verl agent loop', version, 'an environment that rewards turns', `turn_scores ${SHOWN}`);
  });

  it('a rollout that failed raises and the others go on', async () => {
    await using server = await serveWithoutRetriever('nq-mini', ['--tokenizer', 'nano-base']);
    const tasks = (await (await fetch(`${server.url}/v1/tasks?limit=10`)).json()) as { readonly tasks: readonly { readonly example_id: string }[] };
    const { outputs, version } = await agentLoop({ env: server.url, ids: tasks.tasks.map(({ example_id: id }) => id) });
    const failed = outputs.filter(({ error }) => error !== null);
    expect(failed.length).toBeGreaterThan(0);
    expect(failed.length).toBeLessThan(outputs.length);
    for (const { error } of failed) expect(error).toMatch(/^VfSearchError: nq_dev_\d+: RetrievalError: /);
    resultLine('verl agent loop', version, 'the retriever is down', `${failed.length} of ${outputs.length} rollouts raise`);
  });
});
