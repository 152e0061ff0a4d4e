import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { loadEnvironment } from '../../../environments/pipeline/environment.ts';
import type { PipelineEnv } from '../../../environments/pipeline/pipeline-env.ts';
import { ScriptedClient, type ScriptedOptions } from '../../../src/clients/scripted.ts';
import { PolicyError } from '../../../src/core/errors.ts';
import { contentText } from '../../../src/core/message.ts';
import { NO_JOURNAL, openPipeline } from '../../../src/registry/open-pipeline.ts';
import { runRollouts } from '../../../src/rollouts/run-rollouts.ts';
import type { Rollout } from '../../../src/rollouts/rollout.ts';

const ROOT = join(import.meta.dirname, '../../..');
const FILE = join(ROOT, 'examples/search-loop.yaml');
const folder = mkdtempSync(join(tmpdir(), 'pipeline-policy-'));
afterAll(() => rmSync(folder, { recursive: true }));
const ROWS = join(ROOT, 'examples/data/fact-world-5.jsonl');

type Turns = ScriptedOptions['turns'];

async function played(environment: PipelineEnv, turns: Turns, more: Partial<ScriptedOptions> = {}): Promise<Rollout> {
  const client = new ScriptedClient({ turns, ...more });
  const options = { environment, client, maxTokens: null, maxConcurrent: 1, timeoutMs: null, seed: 0, sampling: { temperature: 1, topP: 1 } };
  for await (const { rollouts } of runRollouts([{ row: environment.eval.at(0), indices: [0] }], {
    ...options,
    signal: new AbortController().signal,
  }))
    return rollouts[0]!;
  throw new Error('nothing was played');
}

const opened = (args: Readonly<Record<string, unknown>> = {}, purpose: 'training' | 'evaluation' = 'evaluation') =>
  loadEnvironment({ file: FILE, ...args }, { env: {}, purpose });

const searches: Turns = ({ messages }) =>
  /<information>\S/.test(contentText(messages.at(-1)!.content))
    ? '<answer> Tufilo </answer> and more'
    : '<search> mayor of Rinnarth </search> and more';

/** A pipeline that asks each of its servers once, in this order. */
function pipelineOf(name: string, servers: Readonly<Record<string, string>>): string {
  const file = join(folder, `${name}.yaml`);
  const asked = Object.keys(servers);
  const steps = asked.map((server, i) => `${server}.generate: {output: {ans_ls: a${i}}}`).map((step) => `{${step}}`);
  writeFileSync(
    file,
    `servers: {benchmark: , prompt: , evaluation: , ${asked.map((server) => `${server}: servers/generation`).join(', ')}}
pipeline: [benchmark.get_data, prompt.qa_boxed, ${steps.join(', ')}, {evaluation.evaluate: {input: {pred_ls: a${asked.length - 1}}}}]
`,
  );
  writeFileSync(join(folder, 'plain.jinja'), '{{ question }}');
  mkdirSync(join(folder, 'parameter'), { recursive: true });
  writeFileSync(
    join(folder, 'parameter', `${name}.yaml`),
    [
      `benchmark: {benchmark: {path: ${ROWS}, key_map: {q_ls: question, gt_ls: golden_answers}}}`,
      'evaluation: {metrics: [em], save_path: null}',
      `prompt: {template: ${join(folder, 'plain.jinja')}}`,
      ...Object.entries(servers).map(([server, parameters]) => `${server}: ${parameters}`),
      '',
    ].join('\n'),
  );
  return file;
}

const POLICY = '{backend: policy, sampling_params: {temperature: 1.0, top_p: 1.0, max_tokens: 20, stop: [STOP]}}';
const API = '{model_name: frozen, base_url: "http://user:hidden@127.0.0.1:1/v1"}';
const message = async (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'nothing was thrown',
    (error: unknown) => (error as Error).message,
  );

describe('a pipeline whose generation server is the policy', () => {
  it('is an agent: each call is a turn on record, and its prompt has what the tools found', async () => {
    await using environment = closing(await opened());
    const rollout = await played(environment.value, searches);
    expect(rollout).toMatchObject({ error: null, stop: 'completed', turns: 2, reward: 0, metrics: { em: 0, never_stopped: 0 } });
    expect(rollout.branches.map(({ parent, segments }) => [parent, segments.map(({ kind, text }) => [kind, text])])).toEqual([
      [null, [['model', '<search> mayor of Rinnarth </search>']]],
      [null, [['model', '<answer> Tufilo </answer>']]],
    ]);
    const [first, second] = rollout.branches.map(({ prompt }) => contentText(prompt.at(-1)!.content));
    expect(second!.startsWith(`${first!}<search> mayor of Rinnarth </search>\n\n<information>`)).toBe(true);
    expect(second).toContain('The mayor of Rinnarth');
    expect(rollout.state).toMatchObject({ pred_ls: ['Tufilo'], ans_ls: ['<answer> Tufilo </answer>'] });
  });

  it('shows its routers the end of the turn where the file asks for it, and leaves stop strings out elsewhere', async () => {
    const [keeps, drops] = [true, false].map((keep) => ({ set: [`generation.sampling_params.extra_body.include_stop_str_in_output=${keep}`] }));
    await using kept = closing(await opened(keeps));
    expect((await played(kept.value, ['It is grey.'])).state['ans_ls']).toEqual(['It is grey.<|im_end|>']);
    expect((await played(kept.value, [''])).state['ans_ls']).toEqual(['<|im_end|>']);
    await using dropped = closing(await opened(drops));
    expect((await played(dropped.value, ['<answer> grey </answer>'])).state['ans_ls']).toEqual(['<answer> grey ']);
  });

  it('has a role for each of several servers that ask the policy, and names those that ask another model', async () => {
    await using two = closing(await loadEnvironment({ file: pipelineOf('two', { writer: POLICY, editor: POLICY }) }, { env: {} }));
    const rollout = await played(two.value, ['draft', 'final']);
    expect(rollout.branches.map(({ role }) => role)).toEqual(['writer', 'editor']);
    await using mixed = closing(await loadEnvironment({ file: pipelineOf('mixed', { writer: POLICY, editor: API }) }, { env: {} }));
    expect(mixed.value).toMatchObject({
      asksPolicy: true,
      notices: ['editor asks frozen at http://***@127.0.0.1:1/v1, which is not the policy and is not trained.'],
    });
  });

  it('is also one whose own module asks the policy', async () => {
    const file = join(folder, 'own.yaml');
    writeFileSync(
      file,
      'servers: {benchmark: , mine: own.mjs, evaluation: }\npipeline: [benchmark.get_data, mine.ask, {evaluation.evaluate: {input: {pred_ls: ans_ls}}}]\n',
    );
    writeFileSync(
      join(folder, 'own.mjs'),
      `export const asksPolicy = true;
       const ask = async (policy, text) => {
         const { content } = await policy.languageModel().doGenerate({ prompt: [{ role: 'user', content: [{ type: 'text', text }] }] });
         return content.map((part) => part.text).join('');
       };
       export const tools = { ask: { io: 'q_ls->ans_ls', run: async ({ q_ls }, { policy }) => ({ ans_ls: await Promise.all(q_ls.map((text) => ask(policy, text))) }) } };`,
    );
    const set = [`benchmark.benchmark={path: ${ROWS}, key_map: {q_ls: question, gt_ls: golden_answers}}`, 'evaluation.save_path=null'];
    await using environment = closing(await loadEnvironment({ file, set }, { env: {} }));
    expect(await played(environment.value, ['Kwonu'])).toMatchObject({ turns: 1, error: null, state: { ans_ls: ['Kwonu'] } });
  });

  it('is scored without an answer where the budget is spent, and has no reward where the policy fails', async () => {
    await using environment = closing(await opened());
    const spent = await played(environment.value, searches, { maxModelLen: 700 });
    expect(spent).toMatchObject({ error: null, stop: 'prompt_too_long', turns: 1, reward: 0, metrics: { never_stopped: 1 } });
    const fails: Turns = () => {
      throw new PolicyError('the server is gone');
    };
    expect(await played(environment.value, fails)).toMatchObject({ reward: null, error: { type: 'PolicyError', message: 'the server is gone' } });
  });

  it('trains on the questions of train_path, and says so if there are none', async () => {
    const few = join(folder, 'few.jsonl');
    writeFileSync(few, '{"question": "Who?", "golden_answers": ["me"]}\n');
    const set = ['benchmark.benchmark.limit=2'];
    await using environment = closing(await opened({ train_path: few, set }, 'training'));
    expect([environment.value.train.length, environment.value.eval.length]).toEqual([1, 2]);
    await using all = closing(await opened({ train_path: ROWS, set }, 'training'));
    expect(all.value.train.length).toBe(5);
    expect(all.value.notices).toContain('The rows for training are also the rows for evaluation.');
    expect(await message(opened({}, 'training'))).toMatch(/has no questions to train on. Name a file with them: -a '\{"train_path"/);
  });

  it('refuses fields that the policy cannot be asked for, and runs without a policy, before the first call', async () => {
    const bad = (set: string) => message(opened({ set: [set] }));
    expect(await bad('generation.sampling_params.extra_body={min_p: 0.1}')).toMatch(
      /sampling_params.min_p cannot be asked of the policy. Leave it out/,
    );
    expect(await bad('generation.backend=vllm')).toContain('generation.backend is "vllm", and must be openai or policy');
    await using pipeline = await openPipeline(FILE, { env: {} });
    const run = pipeline.run({ journal: NO_JOURNAL, signal: new AbortController().signal });
    expect(await message(run)).toContain(
      'generation.backend is policy, the model of a run of vf-eval or vf-train. Play the pipeline there: vf-eval pipeline',
    );
  });
});

function closing<T extends { close(): Promise<void> }>(value: T) {
  return { value, [Symbol.asyncDispose]: () => value.close() };
}
