/**
 * Agents on a real vLLM: unmodified clients in TypeScript and Python are played and trained by token ids, and the server judges every exported branch.
 * @module-tag long
 */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EvaluationFolder, judge, type RecordedRollout } from './evaluation-process.ts';
import { CLIENTS } from './note-agents.ts';
import { type ServedModel, serveModel, serveUnlessGiven } from './serve.ts';
import { PYTHON } from './train-process.ts';

const ROOT = join(import.meta.dirname, '../..');
const MODEL = 'nano-copy';
const folder = new EvaluationFolder();
let server: ServedModel;
beforeAll(async () => {
  server = await serveUnlessGiven('VLLM_COPY_BASE_URL', () => serveModel(`packages/vf-search-models/models/${MODEL}`, { VF_VLLM_LORA: '1' }));
}, 1_800_000);
afterAll(async () => {
  folder[Symbol.dispose]();
  await server?.[Symbol.asyncDispose]();
});

const policy = () => ({ url: server.url, model: MODEL });

/** The lines of one rollout, in order of their branches. */
function byRollout(lines: readonly RecordedRollout[]): (readonly RecordedRollout[])[] {
  return Object.values(Object.groupBy(lines, ({ rollout_id: id }) => id)).map((branches) => branches!);
}

async function expectServersOwn(lines: readonly RecordedRollout[], model = MODEL): Promise<void> {
  const { error, tokens } = await judge(server.url, lines, model);
  expect(tokens).toBeGreaterThan(50);
  expect(error).toBeLessThan(1e-4);
}

describe.each(CLIENTS)('an agent of the AI SDK that asks over %s', (client) => {
  const evaluate = (shape: string) =>
    folder.evaluate(policy(), join(import.meta.dirname, 'note-agents.ts'), '-r', '2', '-a', JSON.stringify({ client, shape }));

  it('is one branch as long as it goes on, with log-probs that are the server’s own', async () => {
    const { summary, rollouts } = await evaluate('loop');
    expect(summary).toMatchObject({ rollouts: { planned: 4, finished: 4, errored: 0 }, prefix_breaks: 0 });
    expect(rollouts).toHaveLength(4);
    await expectServersOwn(rollouts);
  });

  it('has a branch for each history that it leaves, each with log-probs that are the server’s own', async () => {
    const { summary, rollouts } = await evaluate('forks');
    expect(summary).toMatchObject({ rollouts: { planned: 4, finished: 4, errored: 0 }, prefix_breaks: 0 });
    for (const branches of byRollout(rollouts)) {
      expect(branches.map(({ parent }) => parent)).toEqual(expect.arrayContaining([0, null, null, null, null]));
      expect(branches).toHaveLength(5);
      const [first, second] = branches;
      // The answer with which both go on is trained in the first alone.
      expect(second!.parent).toBe(0);
      expect(second!.prompt_length).toBeGreaterThan(first!.prompt_length);
      const shared = first!.token_ids.findIndex((id, i) => second!.token_ids[i] !== id);
      expect(shared).toBeGreaterThan(first!.prompt_length);
      expect(second!.loss_mask.slice(0, shared)).not.toContain(1);
    }
    await expectServersOwn(rollouts);
  });
});

describe('an agent in Python', () => {
  const rows = ['heron', 'robin'].map((bird, id) => ({ id, question: `What is the colour of the ${bird}?`, golden_answers: ['grey'] }));
  const evaluate = (command: readonly string[], more: object = {}) => {
    const dataset = join(folder.path, 'birds.jsonl');
    writeFileSync(dataset, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    return folder.evaluate(policy(), 'agent', '-r', '2', '-a', JSON.stringify({ command, dataset, ...more }));
  };

  it('with the package openai is a branch for each of its two conversations', async () => {
    const { summary, rollouts } = await evaluate([PYTHON, join(import.meta.dirname, 'agent_openai.py')]);
    expect(summary).toMatchObject({ rollouts: { planned: 4, finished: 4, errored: 0 }, prefix_breaks: 0 });
    expect(byRollout(rollouts).map((branches) => branches.length)).toEqual([2, 2, 2, 2]);
    await expectServersOwn(rollouts);
  });

  it('with the package anthropic is one branch, streamed or not', async () => {
    const { summary, rollouts } = await evaluate([PYTHON, join(import.meta.dirname, 'agent_anthropic.py')]);
    expect(summary).toMatchObject({ rollouts: { planned: 4, finished: 4, errored: 0 }, prefix_breaks: 0 });
    expect(rollouts).toHaveLength(4);
    await expectServersOwn(rollouts);
  });

  it('that vf-init wrote with the package openai plays, and nothing forks', async () => {
    await folder.run('vf-init', 'py-notes', '--agent', 'command');
    const command = [PYTHON, join(folder.path, 'environments/py-notes/agent_openai.py')];
    const { summary, rollouts } = await folder.evaluate(policy(), 'py-notes', '-n', '4', '-r', '2', '-a', JSON.stringify({ command }));
    expect(summary).toMatchObject({ rollouts: { planned: 8, finished: 8, errored: 0 }, prefix_breaks: 0 });
    expect(rollouts).toHaveLength(8);
    await expectServersOwn(rollouts);
  });
});

describe('vf-train of an agent of the AI SDK, with vLLM and torch', () => {
  it('pushes its adapter into the running server, which plays the agent with log-probs of its own', { timeout: 1_200_000 }, async () => {
    const modules = join(folder.path, 'node_modules');
    mkdirSync(modules);
    symlinkSync(ROOT, join(modules, 'vf-search'));
    for (const name of ['ai', 'zod']) symlinkSync(join(ROOT, 'node_modules', name), join(modules, name));
    await folder.run('vf-init', 'note-agent', '--agent', 'ai-sdk');
    const settings = {
      steps: 3,
      'policy.embedded': 'null',
      'policy.keep_adapter': true,
      'backend.kind': 'torch',
      'backend.python': PYTHON,
      'backend.threads': 1,
      'rollouts.examples_per_step': 4,
      'rollouts.rollouts_per_example': 8,
      'rollouts.max_concurrent': 16,
      'evaluation.every': 0,
    };
    const sets = Object.entries(settings).flatMap(([key, value]) => ['--set', `${key}=${String(value)}`]);
    const printed = await folder.run('vf-train', 'note-agent', '--preset', 'laptop-copy', '-b', server.url, '-o', folder.path, '--json', ...sets);
    const { reason, version, model, directory } = JSON.parse(printed) as Readonly<Record<string, string>>;
    expect({ reason, version }).toEqual({ reason: 'finished', version: 3 });
    const rows = folder.lines(join(directory!, 'metrics.jsonl')).filter(({ kind }) => kind === 'step');
    expect(rows.map(({ step, rollouts_failed: failed }) => [step, failed])).toEqual([1, 2, 3].map((step) => [step, 0]));
    // Torch computes the log-prob of every token of every branch again, with the adapter that sampled it.
    for (const row of rows) expect(row['log_prob_difference_max']).toBeLessThan(1e-4);
    expect(rows.some((row) => Number(row['groups_trained']) > 0)).toBe(true);

    const { summary, rollouts } = await folder.evaluate({ url: server.url, model: model! }, 'note-agent', '-n', '4', '-r', '2');
    expect(summary.rollouts).toMatchObject({ planned: 8, finished: 8, errored: 0 });
    await expectServersOwn(rollouts, model);
    // The same tokens under the weights before training are others'.
    expect((await judge(server.url, rollouts, MODEL)).error).toBeGreaterThan(1e-3);
  });
});
