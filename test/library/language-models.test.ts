/** Models of the AI SDK as the policy and the roles of `evaluate`, over loopback servers that speak their wires. */
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { Dataset } from '../../src/core/dataset.ts';
import { JudgeRubric } from '../../src/core/judge-rubric.ts';
import { reward, Rubric } from '../../src/core/rubric.ts';
import { defineTool } from '../../src/core/tool.ts';
import { ToolEnv } from '../../src/core/tool-use.ts';
import { evaluate } from '../../src/library/evaluate.ts';
import { openPolicy } from '../../src/library/open-policy.ts';
import { wireServer, type WireAnswer } from '../clients/wire-server.ts';
import { PROVIDERS } from '../clients/sdk-providers.ts';

const folder = mkdtempSync(join(tmpdir(), 'language-models-'));
afterAll(() => rmSync(folder, { recursive: true }));

const rows = ['Paris', 'Rome'].map((answer, i) => ({ exampleId: i, prompt: [{ role: 'user' as const, content: `capital ${i}?` }], answer }));
const find = defineTool({
  name: 'find',
  description: 'Finds a capital.',
  parameters: { type: 'object', properties: { row: { type: 'number' } }, required: ['row'] },
  execute: ({ row }) => rows[Number(row)]!.answer,
});
const right = reward(({ row, modelText }) => Number(modelText.includes(String(row.answer))), { name: 'right' });
const capitals = (rubric = new Rubric({ funcs: [right] })) =>
  new ToolEnv({
    id: 'capitals',
    eval: new Dataset('capitals', rows),
    rubric,
    tools: [find],
    calls: 'native',
    roles: rubric instanceof JudgeRubric ? { judge: { about: 'scores', default: null } } : {},
  });

/** Calls the tool, then repeats its result. */
function answered({ body }: { readonly body: Readonly<Record<string, unknown>> }): WireAnswer {
  const said = JSON.stringify(body['messages'] ?? body['input']);
  const found = /"(Paris|Rome)"/.exec(said)?.[1];
  if (found !== undefined) return { content: `It is ${found}.` };
  return { toolCalls: [{ id: 'call_1', name: 'find', arguments: `{"row": ${/capital (\d)/.exec(said)![1]}}` }] };
}

const common = { output: folder, variables: {}, rows: 2 };

describe('evaluate with models of the AI SDK', () => {
  it.each(Object.entries(PROVIDERS))('plays an environment with tools: %s', async (_, model) => {
    await using server = await wireServer(answered);
    const { summary, rollouts } = await evaluate({ ...common, environment: capitals(), policy: model(server.url) });
    expect(rollouts.map((rollout) => [rollout.reward, rollout.stop])).toEqual([
      [1, 'no_tools_called'],
      [1, 'no_tools_called'],
    ]);
    expect(summary).toMatchObject({
      model: 'm',
      policyKind: 'chat',
      rollouts: { finished: 2, errored: 0 },
    });
  });

  it('a failed provider gives errors and no rewards, and a wrong key ends the run', async () => {
    await using down = await wireServer(() => ({ status: 400, body: { error: { message: 'Invalid schema' } } }));
    const policy = createOpenAI({ baseURL: `${down.url}/v1`, apiKey: 'k' })('m');
    const { rollouts, summary } = await evaluate({ ...common, environment: capitals(), policy, maxRetries: 0 });
    expect(rollouts.map((rollout) => rollout.reward)).toEqual([null, null]);
    expect(summary.reward?.value ?? null).toBeNull();
    await using closed = await wireServer(() => ({ status: 401, body: { error: { message: 'Incorrect API key' } } }));
    const wrong = createOpenAI({ baseURL: `${closed.url}/v1`, apiKey: 'k' })('m');
    const ended = evaluate({ ...common, environment: capitals(), policy: wrong });
    await expect(ended).rejects.toThrow(/The API rejected the key/);
  });

  it('plays roles', async () => {
    await using server = await wireServer(({ dialect }) => ({ content: dialect === 'messages' ? '{"reason": "so", "score": 0.25}' : 'Paris' }));
    const judge = createAnthropic({ baseURL: `${server.url}/v1`, apiKey: 'k' })('judge-model');
    const policy = createOpenAICompatible({ name: 'own', baseURL: `${server.url}/v1` })('m');
    const { rollouts, directory } = await evaluate({ ...common, environment: capitals(new JudgeRubric() as never), policy, roles: { judge } });
    expect(rollouts.map((rollout) => rollout.reward)).toEqual([0.25, 0.25]);
    expect(JSON.parse(readFileSync(join(directory, 'metadata.json'), 'utf8'))).toMatchObject({
      roles: { judge: { models: ['judge-model'], tokens: { input: 14, output: 6 } } },
    });
  });

  it('counts the cost with a price, and refuses a limit of cost without one', async () => {
    await using server = await wireServer(answered);
    const languageModel = createOpenAI({ baseURL: `${server.url}/v1`, apiKey: 'k' })('m');
    const limited = { ...common, environment: capitals(), maxCostUsd: 1 };
    await expect(evaluate({ ...limited, policy: languageModel })).rejects.toThrow(
      /^maxCostUsd needs the price of every model, and m \(the policy\) is a model of the AI SDK without one\. In code, give the policy \{ languageModel, price/,
    );
    const { summary } = await evaluate({ ...limited, policy: { languageModel, price: { input: 1, cached: 1, output: 1 } } });
    expect(summary.cost?.usd).toBeCloseTo(40e-6, 9);
  });

  it('takes fields of the request that the AI SDK has, and refuses others before the first request', async () => {
    await using server = await wireServer(answered);
    const policy = createAnthropic({ baseURL: `${server.url}/v1`, apiKey: 'k' })('m');
    const run = { ...common, environment: capitals(), policy };
    await evaluate({ ...run, sampling: { top_k: 3, provider_options: { anthropic: { sendReasoning: true } } } });
    expect(server.seen.every(({ body }) => body['top_k'] === 3)).toBe(true);
    const before = server.seen.length;
    await expect(evaluate({ ...run, sampling: { min_p: 0.1 } })).rejects.toThrow(/no setting for min_p/);
    expect(server.seen).toHaveLength(before);
  });

  it.each(['model', 'languageModel'])('says how a model of the AI SDK in a role gets limits of its own, where it is given as %s', async (key) => {
    const judge = { [key]: PROVIDERS['@ai-sdk/anthropic']!('http://127.0.0.1:9'), maxConcurrent: 2 };
    await expect(evaluate({ ...common, environment: capitals(), roles: { judge } })).rejects.toThrow(
      /^The role judge takes a model of the AI SDK by itself\. Give judge: model, or .* judge: modelFromLanguageModel\(model, \{ maxConcurrentRequests, maxRetries \}\)/,
    );
  });

  it.each([
    ['openai/gpt-5', /^policy must be a model object, got "openai\/gpt-5"/],
    [{ languageModel: {} }, /^policy is no language model of the AI SDK/],
    [
      { languageModel: PROVIDERS['@ai-sdk/anthropic']!('http://127.0.0.1:9'), apiKeyVar: 'K' },
      /^apiKeyVar has no effect next to a model of the AI SDK/,
    ],
  ])('refuses what is no model in one line: %j', async (policy, text) => {
    await expect(evaluate({ ...common, environment: capitals(), policy: policy as never })).rejects.toThrow(text);
  });
});

describe('a module that exports a model of the AI SDK', () => {
  it('is a policy by its path, as -p of vf-eval has it', async () => {
    const path = join(folder, 'my-policy.mjs');
    writeFileSync(path, "export const policy = { specificationVersion: 'v4', provider: 'own', modelId: 'parrot', doGenerate: async () => ({}) };\n");
    await using opened = await openPolicy({ provider: path });
    expect(opened).toMatchObject({ model: 'parrot', kind: 'language-model', description: 'parrot of own (AI SDK) (chat messages)' });
  });

  it('is refused in one line that says what is wrong with it', async () => {
    const [empty, odd] = [join(folder, 'empty.mjs'), join(folder, 'odd.mjs')];
    writeFileSync(empty, 'export const model = 1;\n');
    writeFileSync(odd, "export const policy = 'openai/gpt-5';\n");
    await expect(openPolicy({ provider: empty })).rejects.toThrow(/exports no policy$/);
    await expect(openPolicy({ provider: odd })).rejects.toThrow(/^The export policy of .*odd\.mjs must be a model object, got "openai\/gpt-5"/);
    await expect(openPolicy({ provider: './nowhere.ts' })).rejects.toThrow(/^There is no module .*nowhere\.ts \(provider\)/);
  });
});
