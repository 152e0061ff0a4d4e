import { describe, expect, it } from 'vitest';
import { OpenAIChatClient } from '../../../src/clients/openai-chat.ts';
import { PolicyVersions } from '../../../src/clients/policy-versions.ts';
import { CancelledError } from '../../../src/core/errors.ts';
import type { Values } from '../../../src/pipelines/pipeline-server.ts';
import { generationServer } from '../../../src/pipelines/servers/generation-server.ts';
import type { ToolsVersion } from '../../../src/pipelines/servers/tools-version.ts';
import type { ServiceOpeners } from '../../../src/pipelines/service-openers.ts';
import { loopback, readText, sendJson } from '../../transport/loopback.ts';
import { callContext } from './call-context.ts';

interface Choice {
  readonly content: string | null;
  readonly finish_reason?: string;
  readonly stop_reason?: string | number;
}

const openers: ServiceOpeners = {
  chat: async ({ baseUrl, model, retries, concurrency }) =>
    new OpenAIChatClient({
      baseUrls: [baseUrl],
      versions: new PolicyVersions({ version: 0, model }),
      maxRetries: retries,
      maxConcurrentRequests: concurrency,
      baseDelayMs: 1,
    }),
  search: () => Promise.reject(new Error('Nothing searches here')),
};

/** Asks a server that answers each prompt as `answer` says; null is a status 400. */
async function generate(
  prompts: readonly string[],
  parameters: Values,
  answer: (prompt: string) => Choice | null,
  version: ToolsVersion = '2.0',
  context = callContext(),
) {
  const bodies: Record<string, unknown>[] = [];
  await using server = await loopback(async (request, response) => {
    const body = JSON.parse(await readText(request)) as { messages: { content: string }[] };
    bodies.push({ ...body });
    const choice = answer(body.messages.at(-1)!.content);
    if (choice === null) return sendJson(response, 400, { error: { message: 'no' } });
    const { content, finish_reason = 'stop', stop_reason = null } = choice;
    sendJson(response, 200, { choices: [{ message: { content }, finish_reason, stop_reason }], usage: { prompt_tokens: 1, completion_tokens: 1 } });
  });
  const own = generationServer(version, openers);
  try {
    const url = `${server.url}/v1`;
    const inner = {
      ...context,
      parameters:
        version === '2.0'
          ? { retries: 0, ...context.parameters }
          : { backend: 'openai', backend_configs: { openai: { base_url: url, model_name: 'm', retries: 0 } }, ...parameters },
    };
    const reply = await own.tools['generate']!.run({ prompt_ls: prompts, base_url: url, model_name: 'm', sampling_params: {}, ...parameters }, inner);
    return { answers: reply['ans_ls'] as unknown[], bodies };
  } finally {
    await own.close?.();
  }
}

const SEED = {
  temperature: 0.7,
  top_p: 0.8,
  max_tokens: 2048,
  extra_body: { top_k: 20, include_stop_str_in_output: true, chat_template_kwargs: { enable_thinking: false } },
};

describe('generationServer', () => {
  it("sends the document's sampling parameters, extra_body as fields of the request", async () => {
    const { bodies } = await generate(['p'], { sampling_params: SEED }, () => ({ content: 'a' }));
    expect(bodies).toEqual([
      {
        model: 'm',
        messages: [{ role: 'user', content: 'p' }],
        temperature: 0.7,
        top_p: 0.8,
        max_tokens: 2048,
        top_k: 20,
        include_stop_str_in_output: true,
        chat_template_kwargs: { enable_thinking: false },
      },
    ]);
  });

  it.each<[string, Choice, string]>([
    ['ended its turn', { content: 'done' }, 'done<|im_end|>'],
    ['ended it by a token id', { content: 'done', stop_reason: 151645 }, 'done<|im_end|>'],
    ['shows the end already', { content: 'done<|im_end|>' }, 'done<|im_end|>'],
    ['was cut off', { content: 'do', finish_reason: 'length' }, 'do'],
    ['asked for a search', { content: '<|begin_search_query|>q<|end_search_query|>' }, '<|begin_search_query|>q<|end_search_query|>'],
    ['stopped at a string that the server took out', { content: 'a', stop_reason: 'STOP' }, 'aSTOP'],
    ['stopped at a string that the server left in', { content: 'aSTOP', stop_reason: 'STOP' }, 'aSTOP'],
  ])('shows the end of the turn to routers where the model %s', async (_, choice, text) => {
    const { answers, bodies } = await generate(['p'], { sampling_params: { ...SEED, stop: ['STOP'] } }, () => choice);
    expect(answers).toEqual([text]);
    expect(bodies[0]).toMatchObject({ stop: ['STOP'] });
  });

  it('changes nothing in an answer without include_stop_str_in_output', async () => {
    const { answers, bodies } = await generate(['p'], { sampling_params: { stop: 'STOP' } }, () => ({ content: 'a', stop_reason: 'STOP' }));
    expect(answers).toEqual(['a']);
    expect(bodies[0]).toMatchObject({ stop: ['STOP'] });
    expect(bodies[0]).not.toHaveProperty('temperature');
  });

  it('marks a prompt that failed, with null for its answer, and records every other at once', async () => {
    const context = callContext({}, new Map([[2, 'known']]));
    const { answers, bodies } = await generate(
      ['a', 'b', 'c'],
      {},
      (prompt) => (prompt === 'b' ? null : { content: prompt.toUpperCase() }),
      '2.0',
      context,
    );
    expect(answers).toEqual(['A', null, 'known']);
    expect([...context.failures.keys()]).toEqual([1]);
    expect([...context.recorded]).toEqual([[0, 'A']]);
    expect(bodies).toHaveLength(2);
  });

  it('has no more requests in flight than allowed, and stops all of them with the run', async () => {
    let inFlight = 0;
    let most = 0;
    await using server = await loopback(async () => {
      most = Math.max(most, ++inFlight);
      if (inFlight === 3) stop.abort(new CancelledError('Interrupted by the user'));
    });
    const stop = new AbortController();
    const own = generationServer('2.0', openers);
    const context = callContext({ concurrency: 3, retries: 0 }, new Map(), stop.signal);
    const args = { prompt_ls: Array.from({ length: 50 }, String), base_url: `${server.url}/v1`, model_name: 'm', sampling_params: {} };
    await expect(own.tools['generate']!.run(args, context)).rejects.toBeInstanceOf(CancelledError);
    await own.close?.();
    expect({ most, failures: context.failures.size }).toEqual({ most: 3, failures: 0 });
  });

  it("takes 3.0's settings: the backend openai, extra_params, a system prompt", async () => {
    const parameters = { sampling_params: { max_tokens: 5 }, extra_params: { top_k: 3 }, system_prompt: 'Be brief.' };
    const { bodies } = await generate(['p'], parameters, () => ({ content: 'a' }), '3.0');
    expect(bodies).toMatchObject([{ messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user' }], max_tokens: 5, top_k: 3 }]);
    const { check } = generationServer('3.0', openers).tools['generation_init']!;
    await expect(check!({ backend: 'vllm' }, callContext({ backend: 'vllm' }))).rejects.toThrow(
      /^generation\.backend is "vllm", and must be openai or policy; serve the model/,
    );
  });

  it.each([
    [{ temperature: -1 }, /temperature must be a number from 0 to 100, got -1/],
    [{ top_p: 0 }, /top_p must be a number above 0 and up to 1, got 0/],
    [{ max_tokens: 0 }, /max_tokens must be an integer of at least 1, got 0/],
    [{ stop: [1] }, /stop must be a list of texts/],
    [{ extra_body: 3 }, /extra_body must be a table, got 3/],
  ])('refuses %j before the first call', async (sampling_params, message) => {
    await expect(generationServer('2.0', openers).tools['generate']!.check!({ sampling_params }, callContext())).rejects.toThrow(message);
  });
});

describe('the end of an earlier turn', () => {
  it.each(['2.0', '3.0'] as const)('in a prompt is never sent, whichever tool wrote it (tools %s)', async (version) => {
    const prompt = '<|begin_search_result|>Lima.<|im_end|><|end_search_result|>';
    const { bodies } = await generate([prompt], {}, () => ({ content: 'yes' }), version);
    expect(bodies.map(({ messages }) => messages)).toEqual([[{ role: 'user', content: '<|begin_search_result|>Lima.<|end_search_result|>' }]]);
  });
});
