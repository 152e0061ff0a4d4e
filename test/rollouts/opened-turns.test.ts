/**
 * Policies whose chat template writes the beginning of their turn (`<think>`): rewards and actions see it as if the policy had written it, as upstream does, which scores the
 * decoded prompt and response. The policy's samples stand behind it in the tokens.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadEnvironment, metric, MultiTurnEnv, reward, Rubric, SingleTurnEnv, Dataset, type Environment, type Row } from 'vf-search';
import { type Rollout, runRollouts } from 'vf-search/rollouts';
import { afterAll, describe, expect, it } from 'vitest';
import { CallerPolicy } from '../../src/clients/caller-policy.ts';
import { OpenAIChatClient } from '../../src/clients/openai-chat.ts';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { EnvGroup } from '../../src/core/env-group.ts';
import { ThinkParser } from '../../src/core/parser.ts';
import { RubricGroup } from '../../src/core/rubric-group.ts';
import { WeightedRubric } from '../../src/core/weighted-rubric.ts';
import { scoredSegments } from '../../src/rollouts/scored-segments.ts';
import { openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';
import { COMPLETE, environmentWith, search } from '../environments/visual-rag/fixtures.ts';
import { published, writeTemplateModel } from '../tokenizer/template-models.ts';
import { loopback, readText, sendJson } from '../transport/loopback.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-opened-'));
afterAll(() => rmSync(folder, { recursive: true }));
const dataset = join(folder, 'rows.jsonl');
const corpus = join(folder, 'corpus.jsonl');
writeFileSync(dataset, '{"id":"q1","question":"What is the capital of France?","golden_answers":["Paris"]}\n');
writeFileSync(corpus, '{"id":"1","contents":"\\"France\\"\\nFrance is a country. Its capital is Paris."}\n');
const thinking = await openLocalTokenizer(writeTemplateModel(folder, published('qwen-3-5')));
const silent = await openLocalTokenizer(writeTemplateModel(folder, published('qwen-3')));
const PLAIN = { temperature: 1, topP: 1 };
const OFF = { enable_thinking: false };

const CLOSING =
  '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n</think>{% endif %}';

interface Script {
  /** Qwen3.5, which opens `<think>`; else Qwen3, which opens nothing. @default false */
  readonly opens?: boolean;
  readonly tokenizer?: typeof thinking;
  readonly variables?: Readonly<Record<string, unknown>>;
}

/** The only rollout of the environment's first row, with these samples. */
async function play<R extends Row>(
  environment: Environment<R>,
  turns: readonly string[],
  { opens = false, tokenizer: own, variables }: Script,
): Promise<Rollout<R>> {
  const tokenizer = own ?? (opens ? thinking : silent);
  const client = new CallerPolicy({
    kind: 'tokens',
    tokenizer,
    ask: async ({ turn }) => {
      const { ids } = await tokenizer.encode(turns[turn]!);
      return { kind: 'tokens', tokenIds: ids, logProbs: new Float64Array(ids.length).fill(-1), finish: 'stop' };
    },
  });
  const sampling = { ...PLAIN, ...(variables === undefined ? {} : { extra: { chat_template_kwargs: variables } }) };
  const groups = [{ row: environment.eval.at(0), indices: [0] }];
  const options = {
    environment,
    client,
    sampling,
    maxTokens: null,
    maxConcurrent: 1,
    timeoutMs: null,
    seed: 0,
    signal: new AbortController().signal,
  };
  for await (const { rollouts } of runRollouts(groups, options)) {
    expect(rollouts[0]!.error).toBeNull();
    return rollouts[0]!;
  }
  return failed();
}

describe('a template that opens the thoughts', () => {
  // `compute_score_em` of upstream's qa_em_format.py on the decoded prompt and response, structure_format_score 0.2, final_format_score 0.1.
  it.each([
    ['I know this. </think>\n<answer> Paris </answer>', 1, 1],
    ['I know this. </think>\n<answer> Rome </answer>', 0.2, 0],
  ])('gets the reward of search-r1 (v0.3) that upstream gives: %s', async (written, score, em) => {
    await using environment = await disposable(loadEnvironment('search-r1', { dataset, corpus, preset: 'v0.3' }));
    const opened = await play(environment, [written], { opens: true });
    const wrote = await play(environment, [`<think>\n${written}`], { opens: false });
    for (const { reward: got, metrics } of [opened, wrote]) expect({ reward: got, ...metrics }).toMatchObject({ reward: score, em, format_valid: 1 });
    expect(opened.segments).toEqual(wrote.segments);
    expect(opened.generations.map(({ opening }) => opening)).toEqual(['<think>\n']);
    expect(wrote.generations.map(({ opening }) => opening)).toEqual([undefined]);
    // The opening is part of the prompt.
    expect(opened.branches[0]!.tokens!.sampledLength).toBeLessThan(wrote.branches[0]!.tokens!.sampledLength);
  });

  it('counts with thinking switched off, too: the thoughts are empty', async () => {
    await using environment = await disposable(loadEnvironment('search-r1', { dataset, corpus, preset: 'v0.3' }));
    const { reward: got, metrics, segments } = await play(environment, ['<answer> Paris </answer>'], { opens: false, variables: OFF });
    expect({ reward: got, valid: metrics['format_valid'] }).toEqual({ reward: 1, valid: 1 });
    expect(segments[0]!.text).toBe('<think>\n\n</think>\n\n<answer> Paris </answer>');
  });

  it('keeps a search inside the thoughts from being one (grpo-000), whoever opened them', async () => {
    await using environment = await disposable(loadEnvironment('grpo-000', { dataset, corpus }));
    const turns = ['I could ask <search>Rome</search>', ' but no.</think><answer>Paris</answer>'];
    const opened = await play(environment, turns, { opens: true });
    const wrote = await play(environment, [`<think>\n${turns[0]}`, turns[1]!], { opens: false });
    for (const { metrics } of [opened, wrote]) expect(metrics).toMatchObject({ searches: 0, answered: 1, valid_format: 1, exact_match: 1 });
    expect(opened.segments).toEqual(wrote.segments);
  });

  it('passes the format gate of visual-rag in every turn, those behind a page included', async () => {
    const environment = environmentWith({ phase: 1 });
    const turns = [search('revenue'), COMPLETE];
    const opened = await play(
      environment,
      turns.map((turn) => turn.slice('<think>'.length)),
      { opens: true },
    );
    const wrote = await play(environment, turns, { opens: false });
    for (const { metrics } of [opened, wrote]) expect(metrics['format_pass']).toBe(1);
    expect(opened.generations.map(({ opening }) => opening)).toEqual(['<think>\n', '<think>\n']);
  });

  it('is in the turn that an environment and a parser of the user read', async () => {
    const seen: string[] = [];
    class Twice extends MultiTurnEnv {
      protected setupState = () => ({ turns: 0 });
      protected envResponse(kept: string, { turns }: { turns: number }) {
        seen.push(kept);
        return turns < 2 ? { observation: 'Again.' } : { done: true };
      }
    }
    const parser = new ThinkParser();
    const rows = new Dataset('one', [{ exampleId: '0', prompt: [{ role: 'user' as const, content: 'Count.' }] }]);
    const format = reward(({ segments }) => segments.filter(({ kind, text }) => kind === 'model' && parser.formatReward(text) === 1).length, {
      name: 'format',
    });
    const environment = new Twice({ id: 'twice', eval: rows, rubric: new Rubric({ funcs: [format], parser }) });
    const { reward: got } = await play(environment, ['a</think>one', 'b</think>two'], { opens: true });
    expect({ got, seen }).toEqual({ got: 2, seen: ['<think>\na</think>one', '<think>\nb</think>two'] });
  });

  it('stands before the text with which the environment opens the turn', async () => {
    const rows = new Dataset('one', [{ exampleId: '0', prompt: [{ role: 'user' as const, content: 'Count.' }] }]);
    const length = metric(({ modelText }) => modelText.length, { name: 'length' });
    const rubric = new Rubric({ funcs: [reward(({ scoredText }) => Number(scoredText === '<think>\nSo: one'), { name: 'right' }), length] });
    const environment = new SingleTurnEnv({ id: 'one', eval: rows, rubric, prefill: 'So:' });
    const { reward: got, segments, metrics } = await play(environment, [' one'], { opens: true });
    expect({ got, segments, metrics }).toMatchObject({
      got: 1,
      segments: [
        { kind: 'prefill', text: '<think>\nSo:' },
        { kind: 'model', text: ' one' },
      ],
      metrics: { length: 4 },
    });
  });
});

describe('a chat whose rewards do not read thoughts', () => {
  const rows = new Dataset<Row>('one', [{ exampleId: '0', prompt: [{ role: 'user', content: 'Capital?' }] }]);
  const exact = reward(({ modelText }) => Number(modelText === 'Paris'), { name: 'exact' });

  it('is scored without the empty thoughts that a template writes when thinking is switched off', async () => {
    const plain = new SingleTurnEnv({ id: 'plain', eval: rows, rubric: new Rubric({ funcs: [exact] }) });
    expect((await play(plain, ['Paris'], { opens: false, variables: OFF })).reward).toBe(1);
    const reading = new SingleTurnEnv({ id: 'reading', eval: rows, rubric: new Rubric({ funcs: [exact], readsThoughts: true }) });
    expect((await play(reading, ['Paris'], { opens: false, variables: OFF })).segments[0]!.text).toBe('<think>\n\n</think>\n\nParis');
  });

  it('is scored without the tag that closes the thoughts of a template without thinking (DeepSeek V3.1, GLM)', async () => {
    const plain = new SingleTurnEnv({ id: 'plain', eval: rows, rubric: new Rubric({ funcs: [exact] }) });
    const closing = await openLocalTokenizer(writeTemplateModel(folder, published('qwen-3')), { chatTemplate: CLOSING });
    expect((await closing.render([{ role: 'user', content: 'Capital?' }])).opening).toBe('</think>');
    expect((await play(plain, ['Paris'], { tokenizer: closing })).reward).toBe(1);
  });

  it('is scored without the thoughts that a server returns in a field of their own', () => {
    const segments = [{ kind: 'model', text: 'Paris', reasoning: 'France.' }] as const;
    const whole = [{ kind: 'model', text: '<think>\nFrance.\n</think>\n\nParis', reasoning: 'France.' }];
    const row = rows.at(0);
    const plain = new Rubric({ funcs: [exact] });
    const reading = new Rubric({ funcs: [exact], readsThoughts: true });
    const scored = (rubric: Rubric, turnFormat: 'chat' | 'continuation' = 'chat') => scoredSegments(segments, { row, turnFormat, rubric });
    expect(scored(plain)).toEqual(segments);
    expect(scored(reading)).toEqual(whole);
    expect(scored(new RubricGroup([plain, reading]))).toEqual(whole);
    expect(scored(plain, 'continuation')).toEqual(whole);
  });

  it('is decided by the environment of the row in a group of environments', () => {
    const member = (id: string, readsThoughts: boolean) =>
      new SingleTurnEnv({ id, eval: rows, rubric: new Rubric({ funcs: [exact], readsThoughts }) });
    const { rubric, eval: both } = new EnvGroup({
      id: 'both',
      environments: { plain: member('plain', false), reading: member('reading', true) },
    });
    // Also when it is extended, or scored again with other weights.
    for (const each of [rubric, rubric.extend([metric(() => 1, { name: 'more' })]), new WeightedRubric(rubric, { exact: 2 })])
      expect([...Array(both.length).keys()].map((i) => each.readsThoughtsOf(both.at(i)))).toEqual([false, true]);
  });
});

describe('thoughts that a server returns in a field of their own', () => {
  it.each([
    ['<answer> Paris </answer>', 'I know this.', 1, 1],
    ['<think> I know this. </think>\n<answer> Paris </answer>', 'They ask for a capital.', 1, 1],
    ['', 'I know <search> this </search>', 0.1, 0],
  ])('are scored before the turn %j, from which alone actions are read', async (content, thoughts, score, valid) => {
    await using environment = await disposable(loadEnvironment('search-r1', { dataset, corpus, preset: 'v0.3' }));
    await using server = await loopback(async (request, response) => {
      await readText(request);
      const message = { role: 'assistant', content, reasoning_content: thoughts };
      sendJson(response, 200, {
        choices: [{ index: 0, message, finish_reason: content === '' ? 'length' : 'stop' }],
        usage: { prompt_tokens: 9, completion_tokens: 9 },
      });
    });
    const versions = new PolicyVersions({ version: 0, model: 'm' });
    const client = new OpenAIChatClient({ baseUrls: [`${server.url}/v1`], versions });
    const groups = [{ row: environment.eval.at(0), indices: [0] }];
    const options = {
      environment,
      client,
      sampling: PLAIN,
      maxTokens: null,
      maxConcurrent: 1,
      timeoutMs: null,
      seed: 0,
      signal: new AbortController().signal,
    };
    const rollouts: Rollout[] = [];
    for await (const group of runRollouts(groups, options)) rollouts.push(...group.rollouts);
    await client.close();
    const [{ reward: got, metrics, segments } = failed()] = rollouts;
    expect({ got, ...metrics }).toMatchObject({ got: score, format_valid: valid, searches: 0 });
    expect(segments[0]).toEqual({ kind: 'model', text: content, reasoning: thoughts });
  });
});

function failed(): never {
  throw new Error('Nothing was played');
}

async function disposable<E extends Environment>(opening: Promise<E>): Promise<E & AsyncDisposable> {
  const environment = await opening;
  return Object.assign(environment, { [Symbol.asyncDispose]: async () => environment.close() });
}
