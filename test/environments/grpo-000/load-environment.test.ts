import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { ConfigError, loadEnvironment as loadById } from 'vf-search';
import { GrpoEnv, loadEnvironment, parseConfig, trainingSettings } from 'vf-search/environments/grpo-000';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loopback, readText, sendJson } from '../../transport/loopback.ts';
import { playScript } from '../play-script.ts';

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(path.join(tmpdir(), 'grpo-000-'))));
afterAll(() => rm(folder, { recursive: true }));

async function written(name: string, contents: string): Promise<string> {
  const file = path.join(folder, name);
  await writeFile(file, contents);
  return file;
}

async function failureOf(args: Record<string, unknown>, env = {}): Promise<Error> {
  const failure = await loadEnvironment(args, { env }).then(
    () => new Error('loaded'),
    (error: unknown) => error as Error,
  );
  expect(failure).toBeInstanceOf(ConfigError);
  expect(failure.message).not.toContain('\n');
  return failure;
}

describe('loadEnvironment', () => {
  it('asks for the 30 rules over their own corpus by default, in English and Chinese', async () => {
    const environment = await loadById('grpo-000');
    expect(environment).toBeInstanceOf(GrpoEnv);
    expect(environment.notices).toEqual([]);
    const questions = Array.from(environment.eval, (row) => String(row.info!['question']));
    expect(questions).toHaveLength(30);
    expect(questions.filter((question) => /\p{Script=Han}/u.test(question))).toHaveLength(15);
    const { played } = await playScript(environment as unknown as GrpoEnv, ['<search>When do quiet hours begin?</search>', '<answer>22:00</answer>']);
    expect(played.segments[1]!.text).toMatch(/^<information>Doc 1\(Title: "Quiet hours"\) Quiet hours in Linden House begin at 22:00/);
    await environment.close();
  });

  it('trains on the other wording of the rules, and rejects rollouts with a failed search', async () => {
    const environment = await loadEnvironment({ on_failure: 'empty' }, { purpose: 'training' });
    expect([environment.train.length, environment.eval.length]).toEqual([30, 30]);
    expect(environment.train.at(0).info.question).not.toBe(environment.eval.at(0).info.question);
    expect(environment.notices).toEqual([expect.stringContaining('never trained on')]);
    await environment.close();
  });

  it('answers every question of the rules from their keyword base', async () => {
    for (const purpose of ['evaluation', 'training'] as const) {
      const environment = await loadEnvironment({ engine: 'mock' }, { purpose });
      const keywords = JSON.parse(readFileSync(new URL('../../../environments/grpo-000/keywords.json', import.meta.url), 'utf8')) as Record<
        string,
        string
      >;
      const corpus = readFileSync(new URL('../../../datasets/rule-lookup/corpus.jsonl', import.meta.url), 'utf8');
      for (const text of Object.values(keywords)) expect(corpus).toContain(text);
      for (const { info } of purpose === 'training' ? environment.train : environment.eval) {
        const [, text] = Object.entries(keywords).find(([keyword]) => info.question.toLowerCase().includes(keyword)) ?? [];
        expect({ question: info.question, isAnswered: text?.includes(info.golden_answers[0]!) }).toEqual({
          question: info.question,
          isAnswered: true,
        });
      }
      await environment.close();
    }
  });

  it('reads JSON and CSV as the specification lists data', async () => {
    const json = await written('data.json', JSON.stringify({ queries: ['a?', 'b?'], ground_truths: ['x', 'y'] }));
    const csv = await written('data.csv', '\ufeffid,Answer,Query\r\n7,x,"a, then b?"\r\n');
    const read = async (dataset: string, more = {}) => {
      const environment = await loadEnvironment({ dataset, engine: 'mock', ...more });
      await environment.close();
      return Array.from(environment.eval, ({ exampleId, answer, info }) => [exampleId, info.question, answer]);
    };
    expect(await read(json)).toEqual([
      ['row_0', 'a?', 'x'],
      ['row_1', 'b?', 'y'],
    ]);
    expect(await read(json, { data_limit: 1 })).toHaveLength(1);
    expect(await read(csv)).toEqual([['row_0', 'a, then b?', 'x']]);
    const bad = await written('bad.json', '[{"query": "a"}]');
    expect((await failureOf({ dataset: bad })).message).toMatch(/bad\.json: Row 1 must have/);
  });

  it('searches a server that answers POST /retrieve, and a keyword file', async () => {
    await using server = await loopback(async (request, response) => {
      const { queries } = JSON.parse(await readText(request)) as { queries: string[] };
      sendJson(response, 200, { result: queries.map((query) => [{ document: { contents: `"T"\nabout ${query}` }, score: 1 }]) });
    });
    const environment = await loadEnvironment({ retriever_url: `${server.url}/retrieve`, topk: 1 });
    const { played } = await playScript(environment, ['<search>x</search>', 'end']);
    expect(played.segments[1]!.text).toBe('<information>Doc 1(Title: "T") about x</information>');
    await environment.close();
    const keywords = await written('keys.yaml', 'Heron: holds 14 people\n');
    const mock = await loadEnvironment({ keywords });
    expect((await playScript(mock, ['<search>the heron</search>', 'end'])).played.segments[1]!.text).toBe(
      '<information>holds 14 people</information>',
    );
    await mock.close();
  });

  it('takes the configuration as arguments, as an object, and from YAML or JSON', async () => {
    const yaml = await written('config.yaml', 'format_reward: 0.25\nmax_tokens: 40\nclip_epsilon: 0.4\n');
    for (const args of [
      { config: yaml },
      { config: { format_reward: 0.25, max_tokens: 40, clip_epsilon: 0.4 } },
      { format_reward: 0.25, maxTokens: 40, clip_epsilon: 0.4 },
    ]) {
      const environment = await loadEnvironment({ ...args, exact_match_bonus: 3 });
      const { played, score } = await playScript(environment, ['<answer>22:00</answer>']);
      expect((await score()).reward).toBe(3.25);
      expect(played.generations[0]!.maxNewTokens).toBe(40);
      expect(environment.notices).toEqual([
        'clip_epsilon is 0.4, outside the usual 0.1 to 0.3.',
        expect.stringContaining('algorithm.loss.clip_low = 0.4, algorithm.loss.clip_high = 0.4'),
      ]);
      expect(JSON.parse(JSON.stringify(environment.provenance))).toMatchObject({
        arguments: { format_reward: 0.25, max_tokens: 40, engine: 'bm25', data_split: 'test' },
      });
      await environment.close();
    }
  });

  it.each([
    [{ config: { group_size: 1 } }, 'group_size must be an integer of at least 2, got 1.'],
    [{ groupsize: 2 }, 'grpo-000 has no argument "groupsize"'],
    [{ config: { groupsize: 2 } }, 'The key "groupsize" is unknown'],
    [{ config: { beta: 0.1 }, beta: 0.2 }, 'beta is 0.1 in config and 0.2 as an argument. Set it only once.'],
    [{ config: 'none.yaml' }, 'The file none.yaml does not exist'],
    [{ config: [] }, 'config must be the path of a YAML or JSON file, or an object'],
    [{ production: true }, 'model_name_or_path must be Qwen3-4B or larger in production'],
    [{ use_openai: true }, 'use_openai needs openai_api_key. Set OPENAI_API_KEY.'],
    [{ corpus: 'nq-mini', retriever_url: 'http://127.0.0.1:1/retrieve' }, 'corpus and retriever_url are both set'],
    [{ keywords: 'k.json', engine: 'bm25' }, 'keywords are for the engine mock'],
    [{ engine: 'mock', corpus: 'nq-mini' }, 'The engine mock answers from keywords'],
    [
      { engine: 'bing' },
      'engine must be "mock" or "bm25" or "dense" or "hybrid" or "http" or "qdrant" or "opensearch" or "serper" or "google" or "searxng"',
    ],
    [{ engine: 'searxng' }, 'SEARXNG_URL'],
    [{ dataset: 'nowhere.json' }, 'nowhere.json does not exist'],
  ])('refuses %j', async (args, message) => {
    expect((await failureOf(args)).message).toContain(message);
  });

  it.each([
    [{ log_interval: 5 }, /^log_interval is 5, but every step is logged/],
    [{ use_openai: true, openai_api_key: 'k' }, /^use_openai does not choose the policy here\. Play gpt-4o-mini with -p openai -m gpt-4o-mini\.$/],
    [{ config: { use_openai: true, openai_model: 'gpt-5', openai_api_key: 'k' } }, /-p openai -m gpt-5\.$/],
    [{ openai_model: 'gpt-5' }, /^openai_model is gpt-5, but without use_openai it changes nothing\.$/],
    [{ openai_api_key: 'k' }, /^openai_api_key is sent to no server/],
    [{ device: 'cpu' }, /vf-train sets backend\.device = "cpu"\.$/],
  ])('says which given keys do nothing {%j}', async (args, notice) => {
    const environment = await loadEnvironment(args);
    expect(environment.notices).toContainEqual(expect.stringMatching(notice));
    await environment.close();
  });

  it('is silent about the values that the document gives', async () => {
    const defaults = { use_openai: false, openai_api_key: '', openai_model: 'gpt-4o-mini', device: 'cuda', log_interval: 1 } as const;
    const environment = await loadEnvironment({ config: defaults }, { env: { OPENAI_API_KEY: 'k' } });
    expect(environment.notices).toEqual([]);
    await environment.close();
  });

  it.each([
    'Qwen/Qwen3-4B',
    'Qwen/Qwen3-Coder-30B-A3B-Instruct',
    'Qwen/Qwen3-Next-80B-A3B-Thinking',
    'Qwen/Qwen3-VL-8B-Instruct',
    'Qwen/Qwen3.5-27B',
    'Qwen/Qwen3.5-397B-A17B',
    'Qwen/Qwen3-4B-Instruct-2507-FP8',
    'unsloth/Qwen3-14B-unsloth-bnb-4bit',
    'mlx-community/Qwen3-8B-4bit',
    'qwen3:8b',
    'qwen3-coder:30b',
    'me/search-r1-qwen3-4b-lora',
    'Qwen/Qwen3-32B-AWQ',
    '/models/70b/Qwen3-8B/',
    'Qwen/Qwen3-Coder-Next',
    'qwen3-max',
    'Qwen3-235B-A22B',
    'deepseek-ai/DeepSeek-R1-0528-Qwen3-8B',
    'qwen3.5:9b',
    'bartowski/Qwen_Qwen3-30B-A3B-GGUF',
  ])('takes %s in production', (model) => {
    expect(parseConfig({ production: true, model_name_or_path: model })).toMatchObject({ ok: true, warnings: [] });
  });

  it.each([
    'Qwen/Qwen3-0.6B',
    'Qwen/Qwen3-1.7B-FP8',
    'Qwen/Qwen3-VL-2B-Instruct',
    'Qwen/Qwen2.5-7B-Instruct',
    'meta-llama/Llama-3.1-70B',
    'Qwen/Qwen3.5-0.8B',
    'Qwen/Qwen3-Embedding-8B',
    'Qwen/Qwen3-Reranker-4B',
    '/models/70b/Qwen3-0.6B',
    'unsloth/Qwen3-1.7B-bnb-4bit',
    'Qwen3-0.6B-from-32B',
    'nano-base',
    'qwen3',
  ])('refuses %s in production', (model) => {
    expect(parseConfig({ production: true, model_name_or_path: model })).toMatchObject({ ok: false, key: 'model_name_or_path' });
  });

  it('never shows a key', async () => {
    const secret = 'sk-0123456789';
    const environment = await loadEnvironment({ openai_api_key: secret });
    expect(JSON.stringify([environment.provenance, environment.notices])).not.toContain(secret);
    await environment.close();
    expect((await failureOf({ openai_api_key: secret, config: { openai_api_key: 'other' } })).message).not.toContain(secret);
  });

  it('documents its arguments, and no others', async () => {
    const readme = readFileSync(new URL('../../../environments/grpo-000/README.md', import.meta.url), 'utf8');
    const table = readme.slice(readme.indexOf('## Arguments'), readme.indexOf('## Training'));
    const documented = [...table.matchAll(/^\| (`[^|]+`) +\|/gm)].flatMap(([, cell]) => cell!.replaceAll('`', '').split(', '));
    const { message } = await failureOf({ '?': 1 });
    expect(documented.toSorted()).toEqual(
      message
        .slice(message.indexOf('are ') + 4, -1)
        .split(', ')
        .toSorted(),
    );
  });
});

describe('trainingSettings', () => {
  const context = { env: {}, settingOf: (key: string) => (key === 'rollouts.examples_per_step' ? 8 : undefined) };

  it('names what vf-train calls the keys that were given, outside config and in it', async () => {
    const settings = await trainingSettings({ group_size: 4, config: { device: 'cpu', format_reward: 1, clip_epsilon: 0.1 } }, context);
    expect(settings).toEqual([
      { argument: 'group_size', key: 'rollouts.rollouts_per_example', value: 4 },
      { argument: 'clip_epsilon', key: 'algorithm.loss.clip_low', value: 0.1 },
      { argument: 'clip_epsilon', key: 'algorithm.loss.clip_high', value: 0.1 },
      { argument: 'device', key: 'backend.device', value: 'cpu' },
    ]);
    expect(await trainingSettings({ device: 'cuda' }, context)).toEqual([]);
    await expect(trainingSettings({ use_openai: true, openai_api_key: 'k' }, context)).rejects.toThrow(
      /^use_openai is set, but a model behind an API cannot be trained/,
    );
    expect(await trainingSettings({ dataset: 'fact-world', topk: 2 }, context)).toEqual([]);
  });

  it('has a setting for each key of training, num_epochs by the rows of the data set', async () => {
    const parsed = parseConfig({ num_epochs: 3 });
    if (!parsed.ok) throw new Error(parsed.problem);
    const settings = await trainingSettings({ config: parsed.config }, context);
    expect(settings).toHaveLength(10);
    expect(settings.at(-1)).toEqual({ argument: 'num_epochs', key: 'steps', value: 90 });
    expect(await trainingSettings({ num_epochs: 3 }, context)).toEqual([{ argument: 'num_epochs', key: 'steps', value: Math.ceil(90 / 8) }]);
  });

  it('is a notice in an evaluation only', async () => {
    const notices = async (purpose: 'evaluation' | 'training') => {
      const environment = await loadEnvironment({ group_size: 4, num_epochs: 2 }, { purpose });
      await environment.close();
      return environment.notices;
    };
    expect(await notices('evaluation')).toEqual([
      'Keys of training change nothing in an evaluation; vf-train sets rollouts.rollouts_per_example = 4, steps for 2 passes over the rows.',
    ]);
    expect(await notices('training')).toEqual([]);
  });
});
