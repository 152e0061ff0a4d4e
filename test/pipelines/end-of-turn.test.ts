/** Routers that look for the end of the model's turn: the parameters that they need, and runs in which they never see it. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { loadEnvironment } from '../../environments/pipeline/environment.ts';
import { buildParameters } from '../../src/pipelines/build-parameters.ts';
import { parseYaml } from '../../src/pipelines/parse-yaml.ts';
import { NO_JOURNAL, openPipeline } from '../../src/registry/open-pipeline.ts';
import { playProgramRows } from '../contracts/program.ts';
import { type Loopback, loopback, readText, sendJson } from '../transport/loopback.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-end-of-turn-'));
afterAll(() => rmSync(folder, { recursive: true }));
const { signal } = new AbortController();
const ROOT = join(import.meta.dirname, '../..');
const SEARCH_O1 = join(ROOT, 'examples/search_o1.yaml');

/** A pipeline of the user's own with this router and these parameters. */
function written(name: string, router: string, parameters: string | null = null): string {
  const path = join(folder, `${name}.yaml`);
  const version3 = router === 'router.search_o1_check' ? [] : ['generation.generation_init'];
  const steps = ['benchmark.get_data', ...version3, 'prompt.qa_boxed', 'generation.generate'].map((step) => `- ${step}\n`).join('');
  const stop = router.includes('search_o1') ? 'stop' : 'complete';
  const go = stop === 'stop' ? 'retrieve' : 'incomplete';
  const loop = `- loop:\n    times: 3\n    steps:\n    - branch:\n        router: [${router}]\n        branches:\n          ${go}: [generation.generate]\n          ${stop}: []\n`;
  writeFileSync(path, `servers: {benchmark: , prompt: , generation: , router: }\npipeline:\n${steps}${loop}`);
  mkdirSync(join(folder, 'parameter'), { recursive: true });
  if (parameters !== null) writeFileSync(join(folder, 'parameter', `${name}.yaml`), parameters);
  return path;
}

const open = (path: string, set: readonly string[] = []) => openPipeline(path, { set, env: {} });
writeFileSync(join(folder, 'question.jinja'), '{{question}}');
const templates = [`prompt.template=${join(folder, 'question.jinja')}`];

describe('buildParameters()', () => {
  it.each([
    ['sampling_params', 'router.search_o1_check', (built: Built) => built.generation.sampling_params?.extra_body],
    ['extra_params', 'router.search_r1_check', (built: Built) => built.generation.extra_params],
  ] as const)('shows the end of the turn, by %s, to %s', async (key, router, fields) => {
    const path = written(`built-${key}`, router);
    await using pipeline = await open(path);
    const { target } = await buildParameters(pipeline, { named: path, isBundled: false, examples: join(ROOT, 'examples') });
    expect(fields(parseYaml(readFileSync(target, 'utf8'), target) as Built)).toEqual({ include_stop_str_in_output: true });
    await using built = await open(path, [`benchmark.benchmark.path=${join(ROOT, 'examples/data/sample_asqa_5.jsonl')}`, ...templates]);
    expect(await built.check(signal)).toEqual([]);
  });
});

interface Built {
  readonly generation: { readonly sampling_params?: { readonly extra_body?: unknown }; readonly extra_params?: unknown };
}

describe('OpenPipeline.check()', () => {
  it('says that a router looks for what the answers do not show', async () => {
    await using pipeline = await open(SEARCH_O1, ['generation.sampling_params={max_tokens: 9}']);
    expect(await pipeline.check(signal)).toEqual([
      'router.search_o1_check looks for <|im_end|>, which no answer shows, so it never sees the end of a turn. Set generation.sampling_params.extra_body.include_stop_str_in_output to true.',
    ]);
    await using given = await open(SEARCH_O1);
    expect(await given.check(signal)).toEqual([]);
  });
});

/** Answers every prompt in the same way. */
function answering(content: string): Promise<Loopback> {
  return loopback(async (request, response) => {
    const { query_list: queries } = JSON.parse(await readText(request)) as { query_list?: string[] };
    if (request.url === '/search') return sendJson(response, 200, { ret_psg: queries!.map(() => ['a passage']) });
    sendJson(response, 200, { choices: [{ message: { content }, finish_reason: 'stop' }], usage: { prompt_tokens: 1, completion_tokens: 1 } });
  });
}

describe('a run whose router never says stop', () => {
  it('is told apart from one whose router does', async () => {
    for (const [content, unstopped] of [
      ['<|begin_search_query|>who<|end_search_query|>', [{ router: 'router.search_o1_check', place: '4.loop.1', state: 'stop', rounds: 3 }]],
      ['Lima', []],
    ] as const) {
      await using server = await answering(content);
      const set = [`generation.base_url=${server.url}/v1`, `retriever.retriever_url=${server.url}`, 'evaluation.save_path=null'];
      await using pipeline = await open(SEARCH_O1, set);
      expect((await pipeline.run({ journal: NO_JOURNAL, signal })).unstopped).toEqual(unstopped);
      const environment = await loadEnvironment({ file: SEARCH_O1, set }, { env: {} });
      const rollouts = await playProgramRows(environment);
      await environment.close();
      expect(rollouts.map(({ metrics }) => metrics['never_stopped'])).toEqual(rollouts.map(() => unstopped.length));
      // Neither the requests nor the transcript have the end of a turn within a prompt.
      expect(rollouts.flatMap(({ segments }) => segments.filter(({ kind, text }) => kind === 'observation' && text.includes('<|im_end|>')))).toEqual(
        [],
      );
    }
  });
});
