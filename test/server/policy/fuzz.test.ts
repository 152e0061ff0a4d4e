/** Whatever arrives is answered in vLLM's form, and nothing that arrives breaks the server. */
import { createConnection } from 'node:net';
import { once } from 'node:events';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { answerOf, type JsonAnswer, JSON_TYPE, NANO_PATH, type NanoServer, nanoServer } from './nano-server.ts';

const PATHS = ['/v1/completions', '/v1/chat/completions', '/tokenize', '/detokenize', '/v1/load_lora_adapter', '/v1/unload_lora_adapter'] as const;
const GOOD = { prompt: [300, 301], max_tokens: 2 };

/** A template that reads everything a template may read. */
const TEMPLATE = `{%- for tool in tools or [] %}{{ tool.function.name ~ (tool | tojson) }}{% endfor %}{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content | trim }}{%- for call in message.tool_calls or [] %}{{ call.function.name }}{{ call.function.arguments | tojson }}{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant{% if enable_thinking is defined %}{{ enable_thinking + 1 }}{% endif %}
{% endif %}`;

const folder = mkdtempSync(join(tmpdir(), 'vf-fuzz-'));
let server: NanoServer;
beforeAll(async () => {
  const modelPath = join(folder, 'nano-base');
  cpSync(NANO_PATH, modelPath, { recursive: true });
  writeFileSync(join(modelPath, 'chat_template.jinja'), TEMPLATE);
  server = await nanoServer({ allowAdaptersUnder: [], engine: { modelPath } });
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

const send = async (path: string, body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = JSON_TYPE) =>
  answerOf(await fetch(`${server.url}${path}`, { method: 'POST', body, headers }));

/** A 4xx whose body says why, in one of vLLM's two forms. */
function isRefusal({ status, body }: { readonly status: number; readonly body: unknown }): boolean {
  if (status < 400 || status > 499 || typeof body !== 'object' || body === null) return false;
  const { error, detail } = body as { error?: { message?: unknown; code?: unknown; type?: unknown }; detail?: unknown };
  return typeof detail === 'string' || (typeof error?.message === 'string' && error.code === status && typeof error.type === 'string');
}

/** The answer if it is neither a 200 nor a refusal. */
function wrongAnswer(answer: JsonAnswer): string | null {
  return answer.status === 200 || isRefusal(answer) ? null : `${answer.status} ${answer.text}`;
}

async function expectWell(): Promise<void> {
  expect(await send('/v1/completions', JSON.stringify(GOOD))).toMatchObject({ status: 200, body: { usage: { completion_tokens: 2 } } });
  expect((await server.get('/health')).status).toBe(200);
  expect(server.failures).toEqual([]);
  expect(server.engine.stats()).toMatchObject({ requestsRunning: 0, requestsWaiting: 0 });
}

/** Numbers at every edge, and everything that JSON has. */
const anything = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom(
    0,
    -0,
    -1,
    1e308,
    -1e308,
    2 ** 31,
    2 ** 53,
    -(2 ** 63),
    0.5,
    '',
    '\0',
    '\uD800',
    '__proto__',
    'nano-base',
    '</s>',
    true,
    null,
    [],
    [[]],
    {},
  ),
);

describe('policyApp', () => {
  it('answers any JSON with a 200 or a refusal', async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...PATHS), fc.jsonValue(), async (path, body) => {
        const answer = await send(path, JSON.stringify(body));
        expect(wrongAnswer(answer)).toBeNull();
      }),
      { numRuns: 120 },
    );
    await expectWell();
  });

  const FIELDS =
    'model prompt n max_tokens temperature top_p top_k min_p seed stop stop_token_ids min_tokens logprobs prompt_logprobs allowed_token_ids cache_salt request_id ' +
    'stream_options echo ignore_eos return_token_ids skip_special_tokens include_stop_str_in_output add_special_tokens repetition_penalty logit_bias response_format ' +
    'best_of messages tools chat_template_kwargs tokens lora_name lora_path load_inplace __proto__ constructor';
  it('answers a good request with any one field changed with a 200 or a refusal', async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...PATHS), fc.constantFrom(...FIELDS.split(' ')), anything, async (path, field, value) => {
        const good = { ...GOOD, messages: [{ role: 'user', content: 'a' }], tokens: [300], lora_name: 'a', lora_path: '/nowhere' };
        // Written by hand, so that a field named __proto__ is sent as one.
        const body = `{${Object.entries(good)
          .filter(([name]) => name !== field)
          .map(([name, own]) => `${JSON.stringify(name)}:${JSON.stringify(own)},`)
          .join('')}${JSON.stringify(field)}:${JSON.stringify(value)}}`;
        const answer = await send(path, body);
        expect({ body, wrong: wrongAnswer(answer) }).toEqual({ body, wrong: null });
      }),
      { numRuns: 80 },
    );
    await expectWell();
  });

  it('answers any chat with a 200 or a refusal', async () => {
    const message = fc.record(
      { role: fc.oneof(fc.constant('user'), fc.string()), content: anything, tool_calls: anything },
      { requiredKeys: ['role'] },
    );
    const fields = { add_generation_prompt: fc.boolean(), continue_final_message: fc.boolean(), enable_thinking: anything };
    await fc.assert(
      fc.asyncProperty(fc.array(message, { maxLength: 3 }), anything, anything, fc.record(fields), async (messages, tools, variables, flags) => {
        const body = { messages, tools, chat_template_kwargs: variables, ...flags, max_completion_tokens: 1 };
        for (const path of ['/v1/chat/completions', '/tokenize']) expect(wrongAnswer(await send(path, JSON.stringify(body)))).toBeNull();
      }),
      { numRuns: 60 },
    );
    expect((await send('/v1/chat/completions', '{"messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 1}')).status).toBe(200);
    await expectWell();
  });

  it('refuses bytes that are not JSON, or not text', async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...PATHS), fc.uint8Array({ minLength: 1, maxLength: 200 }), async (path, bytes) => {
        // Digits alone are JSON, but not an object.
        expect(isRefusal(await send(path, new Uint8Array(bytes)))).toBe(true);
      }),
      { numRuns: 80 },
    );
    const whole = new TextEncoder().encode(JSON.stringify(GOOD));
    for (let length = 0; length < whole.length; length++) expect(isRefusal(await send('/v1/completions', whole.slice(0, length)))).toBe(true);
    await expectWell();
  });

  it.each([
    ['a deep prompt', `{"prompt": ${'['.repeat(200_000)}${']'.repeat(200_000)}}`],
    ['a deep message', `{"messages": [{"role": "user", "content": ${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}}]}`],
    ['a deep tool', `{"messages": [{"role": "user", "content": "a"}], "tools": [${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}]}`],
    ['a deep body', `${'['.repeat(200_000)}${']'.repeat(200_000)}`],
    ['deep fields that nothing reads', `{"model": 5, "x": ${'['.repeat(200_000)}${']'.repeat(200_000)}}`],
    ['an infinity', '{"prompt": [300], "temperature": 1e999}'],
    ['a NaN', '{"prompt": [300], "temperature": NaN}'],
    ['many wrong prompts', JSON.stringify({ prompt: Array.from({ length: 5000 }, () => [300]), max_tokens: 1 })],
    ['many choices', JSON.stringify({ ...GOOD, n: 1_000_000_000 })],
    ['a long text', JSON.stringify({ prompt: 'a b '.repeat(2_000_000) })],
    ['one long word', JSON.stringify({ prompt: 'a'.repeat(200_000) })],
    ['half a character', '{"prompt": "\\ud83d"}'],
    ['a prompt of words and numbers', '{"prompt": [1, "a", [2]]}'],
  ])('refuses %s', async (_, body) => {
    for (const path of PATHS.slice(0, 3)) expect(isRefusal(await send(path, body))).toBe(path !== '/tokenize' || !isTokenizable(body));
    await expectWell();
  });

  it('refuses bodies of other types and sizes', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'application/jsonp', ''])
      expect(isRefusal(await send('/v1/completions', JSON.stringify(GOOD), { 'content-type': type }))).toBe(true);
    expect((await send('/v1/completions', JSON.stringify(GOOD), { 'content-type': 'Application/JSON; charset=utf-8' })).status).toBe(200);
    const huge = await send('/v1/completions', `{"prompt": "${'a'.repeat(17 * 2 ** 20)}"}`);
    expect(huge).toMatchObject({ status: 413, body: { error: { code: 413, message: expect.stringContaining('The body is too large') as string } } });
    await expectWell();
  });

  it('survives requests that are not HTTP, and bodies that end early', async () => {
    const { port } = new URL(server.url);
    const head = `POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n`;
    const raw = [
      '\0\0\0\0',
      'GET',
      `${head}content-length: 100\r\n\r\n{"prompt"`,
      `${head}transfer-encoding: chunked\r\n\r\nffffffff\r\n`,
      `${head}content-length: -5\r\n\r\n`,
    ];
    for (const text of raw) {
      const socket = createConnection(Number(port), '127.0.0.1');
      await once(socket, 'connect');
      socket.on('error', () => {});
      socket.end(text);
      socket.resume();
      await once(socket, 'close');
    }
    expect(server.failures).toEqual([]);
    await expectWell();
  });
});

/** What `/tokenize` rightly accepts, long texts included. */
function isTokenizable(body: string): boolean {
  const { prompt } = (/^\{"prompt": ?"[a ]{1,524288}"\}$/.test(body) ? JSON.parse(body) : {}) as { prompt?: string };
  return prompt !== undefined;
}
