import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { loadEnvironment } from '../../../environments/pipeline/environment.ts';
import { ConfigError } from '../../../src/core/errors.ts';
import { pythonShuffle } from '../../../src/pipelines/python-shuffle.ts';
import { loadEnvironment as loadNamed } from '../../../src/registry/load-environment.ts';
import { NO_JOURNAL, openPipeline } from '../../../src/registry/open-pipeline.ts';
import { playProgramRows, programContract } from '../../contracts/program.ts';
import { loopback, readText, sendJson } from '../../transport/loopback.ts';
import { type Script, scripted } from './scripted-search.ts';

const ROOT = join(import.meta.dirname, '../../..');
const SEARCH_O1 = join(ROOT, 'examples/search_o1.yaml');
const folder = mkdtempSync(join(tmpdir(), 'pipeline-env-'));
afterAll(() => rmSync(folder, { recursive: true }));
const ROWS = `benchmark.benchmark={path: ${join(ROOT, 'examples/data/fact-world-5.jsonl')}, key_map: {q_ls: question, gt_ls: golden_answers}}`;

programContract(async () => {
  const environment = await loadNamed('pipeline');
  return { environment, [Symbol.asyncDispose]: () => environment.close() };
});

interface Vector {
  readonly id: string;
  readonly input: Script;
  readonly output: { readonly final: { readonly ans_ls: readonly string[]; readonly eval_res: Readonly<Record<string, readonly number[]>> } };
}
const { cases } = JSON.parse(readFileSync(join(ROOT, 'test/golden/search-o1/ultrarag_seed_pipeline.json'), 'utf8')) as { cases: readonly Vector[] };

function settings(script: Script, url: string): string[] {
  const file = join(folder, 'questions.jsonl');
  writeFileSync(file, script.questions.map((question) => `${JSON.stringify(question)}\n`).join(''));
  return [
    `benchmark.benchmark.path=${file}`,
    'benchmark.benchmark.limit=-1',
    'evaluation.metrics=[acc, em, f1]',
    `evaluation.save_path=${join(folder, 'saved.json')}`,
    `generation.base_url=${url}/v1`,
    'generation.retries=0',
    `retriever.retriever_url=${url}`,
  ];
}

describe('the environment pipeline', () => {
  // Each takes two plays; parity.test.ts plays all of them as a run over all questions.
  it.each(cases.map((each, i) => [each.id, each, i] as const).filter(([, , i]) => i % 4 === 0))(
    'plays every question of %s as a run over all of them does',
    async (_, each) => expect(await playedAlone(each)).toBe('alike'),
  );
  it.each(cases.map((each, i) => [each.id, each, i] as const).filter(([, , i]) => i % 4 !== 0))(
    'plays every question of %s as a run over all of them does',
    { tags: 'long' },
    async (_, each) => expect(await playedAlone(each)).toBe('alike'),
  );

  async function playedAlone({ input, output }: Vector): Promise<'alike'> {
    let handler = scripted(input);
    await using server = await loopback((request, response) => handler(request, response));
    await using pipeline = await openPipeline(SEARCH_O1, { set: [...settings(input, server.url), 'evaluation.save_path=null'], env: {} });
    const { variables } = await pipeline.run({ journal: NO_JOURNAL, signal: new AbortController().signal });
    const batch = variables as unknown as Vector['output']['final'];
    expect(batch).toMatchObject(output.final);
    handler = scripted(input);
    await using environment = asyncClosing(await loadEnvironment({ file: SEARCH_O1, set: settings(input, server.url) }, { env: {} }));
    expect([...environment.value.eval].map(({ prompt }) => prompt[0]!.content)).toEqual(input.questions.map(({ question }) => question));
    const alone = await playProgramRows(environment.value);
    expect(alone.map(({ error, state }) => error ?? (state['ans_ls'] as string[])[0])).toEqual(batch.ans_ls);
    for (const name of ['acc', 'em', 'f1']) expect(alone.map(({ metrics }) => metrics[name])).toEqual(batch.eval_res[name]);
    expect(alone.map(({ reward }) => reward)).toEqual(batch.eval_res['em']);
    return 'alike';
  }

  it('shows what its models were shown and wrote, in order, and writes no file', async () => {
    const { input } = cases.find(({ input: { questions, passages } }) => questions.length > 1 && Object.keys(passages).length > 1)!;
    await using server = await loopback(scripted(input));
    await using environment = asyncClosing(await loadEnvironment({ file: SEARCH_O1, set: settings(input, server.url) }, { env: {} }));
    const rollouts = await playProgramRows(environment.value);
    rollouts.forEach(({ segments, row }, i) => {
      const written = segments.filter(({ kind }) => kind === 'model').map(({ text }) => text);
      expect(written.map((text) => text.replace('out of script<|im_end|>', ''))).toEqual(written.map((_, at) => input.answers[i]![at] ?? ''));
      expect(segments.filter((_, at) => at % 2 === 0).every(({ kind }) => kind === 'observation')).toBe(true);
      expect(segments[0]!.text).toContain(row.question['q_ls']);
    });
    expect(() => readFileSync(join(folder, 'saved.json'))).toThrow('ENOENT');
  });

  it('gives a question whose generation failed no reward, and the others theirs', async () => {
    await using server = await loopback(async (request, response) => {
      const text = await readText(request);
      if (text.includes('broken')) return sendJson(response, 400, { error: { message: 'too long' } });
      sendJson(response, 200, { choices: [{ message: { content: 'Paris' }, finish_reason: 'stop' }], usage: {} });
    });
    const questions = ['capital of France', 'broken', 'capital of Texas'].map((question) => ({ question, golden_answers: ['Paris<|im_end|>'] }));
    const set = settings({ questions, answers: {}, passages: {} }, server.url);
    await using environment = asyncClosing(await loadEnvironment({ file: SEARCH_O1, set }, { env: {} }));
    const rollouts = await playProgramRows(environment.value);
    expect(rollouts.map(({ reward }) => reward)).toEqual([1, null, 1]);
    expect(rollouts[1]!.error).toMatchObject({ type: 'PipelineError', source: 'environment' });
    expect(rollouts[1]!.error!.message).toMatch(/^The question failed in generation\.generate \(step 3\): generation\.generate: .*400.*too long/);
  });

  it('closes its pipeline, with the servers that have something to close', async () => {
    const [file, closed] = [join(folder, 'closing.yaml'), join(folder, 'closed.txt')];
    writeFileSync(
      file,
      'servers: {benchmark: , mine: closing.mjs, evaluation: }\npipeline: [benchmark.get_data, mine.answer, {evaluation.evaluate: {input: {pred_ls: ans_ls}}}]\n',
    );
    const tool = "{ io: 'q_ls->ans_ls', run: ({ q_ls }) => ({ ans_ls: q_ls }) }";
    writeFileSync(
      join(folder, 'closing.mjs'),
      `import { appendFileSync } from 'node:fs';
       export const tools = { answer: ${tool} };
       export const close = () => appendFileSync(${JSON.stringify(closed)}, 'closed');`,
    );
    const environment = await loadEnvironment({ file, set: [ROWS, 'evaluation.save_path=null'] }, { env: {} });
    expect(existsSync(closed)).toBe(false);
    await environment.close();
    expect(readFileSync(closed, 'utf8')).toBe('closed');
  });

  it('takes the rows that the benchmark chooses, in its order', async () => {
    const questions = Array.from({ length: 20 }, (_, i) => ({ question: `q${i}`, golden_answers: [`a${i}`] }));
    const given = settings({ questions, answers: {}, passages: {} }, 'http://127.0.0.1:1');
    const set = [...given, 'benchmark.benchmark.shuffle=true', 'benchmark.benchmark.seed=7', 'benchmark.benchmark.limit=5'];
    await using environment = asyncClosing(await loadEnvironment({ file: SEARCH_O1, set }, { env: {} }));
    expect([...environment.value.eval].map(({ prompt, info }) => [prompt[0]!.content, info])).toEqual(
      pythonShuffle(20, 7n)
        .slice(0, 5)
        .map((i) => [`q${i}`, { golden_answers: [`a${i}`] }]),
    );
  });

  it('says which generation servers are asked, without credentials, and records what decides the result', async () => {
    const set = ['generation.base_url=http://user:hidden@h:1/v1', 'generation.model_name=Qwen/QwQ-32B'];
    await using environment = asyncClosing(await loadEnvironment({ file: SEARCH_O1, set }, { env: {} }));
    expect(environment.value.programModels).toEqual({
      name: 'Qwen/QwQ-32B',
      description: 'generation asks Qwen/QwQ-32B at http://***@h:1/v1',
      choice: `-a '{"set": ["generation.model_name=NAME", "generation.base_url=URL"]}'`,
      trainable: `-a '{"set": ["generation.backend=policy"], "train_path": "QUESTIONS.jsonl"}'`,
    });
    await using other = asyncClosing(await loadEnvironment({ file: SEARCH_O1 }, { env: {} }));
    expect(environment.value.provenance['parameters']).not.toBe(other.value.provenance['parameters']);
    expect(environment.value.provenance).toMatchObject({ file: SEARCH_O1, tools: '2.0', metric: 'em' });
    await using alone = asyncClosing(await loadEnvironment());
    expect(alone.value.programModels).toMatchObject({ name: 'no-model', description: null });
  });

  it('takes the reward from the metric that is asked for, else em, else the first', async () => {
    const metricOf = async (args: Readonly<Record<string, unknown>>) => {
      await using environment = asyncClosing(await loadEnvironment(args));
      return environment.value.rubric.rewardNames;
    };
    expect(await metricOf({})).toEqual(['em']);
    expect(await metricOf({ metric: 'F1' })).toEqual(['f1']);
    expect(await metricOf({ set: ['evaluation.metrics=[rouge-l, f1]'] })).toEqual(['rouge-l']);
    expect(await metricOf({ set: ['evaluation.metrics=null'], metric: 'coverem' })).toEqual(['coverem']);
  });

  it.each<[string, Readonly<Record<string, unknown>>, RegExp]>([
    [
      'a metric that is not computed',
      { metric: 'acc' },
      /does not compute the metric acc\. It computes em, f1; evaluation\.metrics chooses others\./,
    ],
    [
      'an unknown argument',
      { files: 'x' },
      /pipeline has no argument "files" \(did you mean file\?\)\. Its arguments are file, set, train_path, tools, metric, strict_stops\./,
    ],
    ['settings that are not a list', { set: 'a.b=c' }, /set must be a list of texts such as "generation\.model_name=NAME", got "a\.b=c"/],
    ['a setting of another server', { set: ['bench.x=1'] }, /has values for bench, which is not a server of the pipeline/],
    ['a file that does not exist', { file: 'none.yaml' }, /none\.yaml/],
    ['tools of another version', { tools: '4.0' }, /tools must be "2\.0" or "3\.0"/],
    [
      'a pipeline without a benchmark',
      { file: 'no-benchmark.yaml' },
      /has no step benchmark\.get_data, so its questions cannot be played one by one/,
    ],
    ['a pipeline that reads two benchmarks', { file: 'two.yaml' }, /has 2 steps benchmark\.get_data/],
    ['a pipeline without an evaluation', { file: 'no-evaluation.yaml' }, /has no step evaluation\.evaluate, so its questions have no metrics/],
  ])('refuses %s in one line', async (_, args, message) => {
    const steps: Readonly<Record<string, string>> = {
      'no-benchmark.yaml': 'retriever.retriever_search: {input: {query_list: $corpus_path}}',
      'two.yaml': 'benchmark.get_data, benchmark.get_data, evaluation.evaluate: {input: {pred_ls: q_ls}}',
      'no-evaluation.yaml': 'benchmark.get_data',
    };
    const written = Object.entries(steps).find(([name]) => name === args['file']);
    const own: Record<string, unknown> = { ...args };
    if (written !== undefined) {
      own['file'] = join(folder, written[0]);
      own['set'] = [ROWS];
      writeFileSync(own['file'] as string, `servers: {benchmark: , evaluation: , retriever: }\npipeline: [${written[1]}]\n`);
    }
    const failure = await loadEnvironment(own).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ConfigError);
    expect((failure as Error).message).toMatch(message);
    expect((failure as Error).message).not.toContain('\n');
  });
});

function asyncClosing<T extends { close(): Promise<void> }>(value: T): AsyncDisposable & { readonly value: T } {
  return { value, [Symbol.asyncDispose]: () => value.close() };
}
