/**
 * Values of another type in the fields of requests, on every server: only a JSON value of the field's own type is taken. `vf-serve retrieve` alone takes what pydantic
 * makes of others, because Search-R1's server, whose clients it serves, does (`src/schemas/retrieve.ts`).
 */
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CodeExecutor } from '../../src/execution/index.ts';
import { RunRequestSchema, TasksRequestSchema } from '../../src/schemas/verifiers-wire/requests.ts';
import { schemaCheck } from '../../src/schemas/schema-check.ts';
import { parseLoadAdapterRequest, parseUnloadAdapterRequest } from '../../src/schemas/policy-server/adapter-request.ts';
import { parseChatRequest } from '../../src/schemas/policy-server/chat-request.ts';
import { parseCompletionRequest } from '../../src/schemas/policy-server/completion-request.ts';
import type { Parsed } from '../../src/schemas/policy-server/request-problem.ts';
import { parseTokenizeRequest } from '../../src/schemas/policy-server/tokenize-request.ts';
import { executionApp } from '../../src/server/execution-app.ts';
import { retrievalApp } from '../../src/server/retrieval-app.ts';
import { WordRetriever } from '../retrieval/word-retriever.ts';
import { type EnvironmentClient, environmentClient, TalkEnv } from '../server/environment/environment-client.ts';

/** As text, because JSON.stringify could not write most of them. */
const VALUES = {
  yes: 'true',
  no: 'false',
  digits: '"3"',
  word: '"true"',
  empty: '""',
  half: '1.5',
  whole: '1.0',
  minusZero: '-0',
  endless: '1e999',
  minusEndless: '-1e999',
  vast: '1e300',
  long: '123456789012345678901234567890',
  rounded: '9007199254740993',
  null: 'null',
  list: '[]',
  listed: '[3]',
  object: '{}',
} as const;
type Name = keyof typeof VALUES;

const numbers: readonly Name[] = ['half', 'whole', 'minusZero', 'vast', 'long', 'rounded'];
/** What a field of a kind may take; whether it does is up to its range. A trailing `?` adds null. */
const TAKEN = {
  integer: ['whole', 'minusZero'],
  number: numbers,
  boolean: ['yes', 'no'],
  text: ['digits', 'word', 'empty'],
  // A number of too many digits is the text of its digits, so that two ids stay two.
  id: ['digits', 'word', 'empty', ...numbers],
} as const satisfies Record<string, readonly Name[]>;
type Kind = keyof typeof TAKEN;

type Fields = Readonly<Record<string, Kind | `${Kind}?`>>;
/** A body in which `@` stands for the value of the field, by the field's kind. */
interface Route {
  readonly path: string;
  readonly fields: Fields;
  /** The body with the field, `{"topk":true}` for example. */
  readonly body: (field: string) => string;
}

const within = (before: string) => (field: string) => `{${before}${before === '' ? '' : ','}${field}}`;

const sampling: Fields = {
  n: 'integer?',
  temperature: 'number?',
  top_p: 'number?',
  top_k: 'integer?',
  min_p: 'number?',
  seed: 'integer?',
  min_tokens: 'integer?',
  ignore_eos: 'boolean?',
  include_stop_str_in_output: 'boolean?',
  skip_special_tokens: 'boolean?',
  stream: 'boolean?',
  echo: 'boolean?',
  return_token_ids: 'boolean?',
  cache_salt: 'text?',
  request_id: 'text?',
  prompt_logprobs: 'integer?',
};

const POLICY: readonly Route[] = [
  { path: '/v1/completions', fields: { ...sampling, logprobs: 'integer?' }, body: within('"prompt":[300],"max_tokens":1') },
  { path: '/v1/completions', fields: { max_tokens: 'integer?' }, body: within('"prompt":[300]') },
  {
    path: '/v1/chat/completions',
    fields: { ...sampling, logprobs: 'boolean?', top_logprobs: 'integer?', add_generation_prompt: 'boolean?' },
    body: within('"messages":[{"role":"user","content":"x"}],"max_tokens":1'),
  },
  { path: '/tokenize', fields: { add_special_tokens: 'boolean?', return_token_strs: 'boolean?' }, body: within('"prompt":"x"') },
  { path: '/v1/load_lora_adapter', fields: { load_inplace: 'boolean' }, body: within('"lora_name":"a","lora_path":"/nowhere"') },
  { path: '/v1/load_lora_adapter', fields: { lora_name: 'text' }, body: within('"lora_path":"/nowhere"') },
  { path: '/v1/unload_lora_adapter', fields: { lora_name: 'text' }, body: within('') },
];

/** What the routes read with; the engine would take its time over each body that is right. */
const POLICY_PARSERS: Readonly<Record<string, (body: unknown) => Parsed<unknown>>> = {
  '/v1/completions': parseCompletionRequest,
  '/v1/chat/completions': parseChatRequest,
  '/tokenize': parseTokenizeRequest,
  '/v1/load_lora_adapter': parseLoadAdapterRequest,
  '/v1/unload_lora_adapter': parseUnloadAdapterRequest,
};

const EXECUTION: readonly Route[] = [
  { path: '/run', fields: { hash_seed: 'integer' }, body: within('"code":"","calls":[]') },
  {
    path: '/run',
    fields: { seconds: 'number', memory_bytes: 'integer', output_bytes: 'integer', repr_length: 'integer' },
    body: (field) => `{"code":"","calls":[],"limits":{${field}}}`,
  },
  { path: '/run', fields: { code: 'text' }, body: within('"calls":[]') },
  { path: '/analyse', fields: { measured: 'boolean', banned_rule: 'text' }, body: within('"code":""') },
];

const turn = '"episode_id":"nobody"';
const ENVIRONMENT: readonly Route[] = [
  {
    path: '/v1/episodes',
    fields: { version: 'integer', max_model_len: 'integer', model: 'text' },
    body: (field) => `{"policy":{"kind":"tokens",${field}},"episodes":[{"example_id":"row-9"}]}`,
  },
  { path: '/v1/episodes', fields: { max_new_tokens: 'integer' }, body: within('"policy":{"kind":"tokens"},"episodes":[{"example_id":"row-9"}]') },
  { path: '/v1/episodes', fields: { example_id: 'id' }, body: (field) => `{"policy":{"kind":"tokens"},"episodes":[{${field}}]}` },
  {
    path: '/v1/episodes',
    fields: { group_id: 'text' },
    body: (field) => `{"policy":{"kind":"tokens"},"episodes":[{"example_id":"row-9",${field}}]}`,
  },
  {
    path: '/v1/rollouts',
    fields: { rollouts_per_example: 'integer', max_concurrent: 'integer', messages: 'boolean', request_id: 'text' },
    body: within('"example_ids":["row-9"],"policy":{"base_url":"http://127.0.0.1:1"}'),
  },
  {
    path: '/v1/rollouts',
    fields: { version: 'integer', model: 'text', api_key_var: 'text', base_url: 'text' },
    body: (field) => `{"example_ids":["row-9"],"policy":{"base_url":"http://127.0.0.1:1",${field}}}`,
  },
  { path: '/reset', fields: { seed: 'integer?', episode_id: 'text?', example_id: 'id?' }, body: within('') },
  { path: '/step', fields: { timeout_s: 'number?', request_id: 'text?' }, body: within('"episode_id":"nobody","action":{"text":"x"}') },
  { path: '/talk/task', fields: { index: 'integer' }, body: within('"split":"eval"') },
  { path: '/talk/task_range', fields: { start: 'integer?', stop: 'integer?' }, body: within('"split":"eval"') },
  { path: '/talk/num_tasks', fields: { split: 'text' }, body: within('') },
];

/** Fields of entries, each of which has an answer of its own. */
const STEP: Fields = { turn: 'integer', version: 'integer?', finish_reason: 'text?' };

function isTaken(kind: Kind | `${Kind}?`, name: Name): boolean {
  const isOptional = kind.endsWith('?');
  return name === 'null' ? isOptional : (TAKEN[kind.replace('?', '') as Kind] as readonly Name[]).includes(name);
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

/** What is wrong with the answers to all values of all fields of the routes; nothing if they follow the rule. */
async function faults(routes: readonly Route[], send: (path: string, body: string) => Promise<Answer>): Promise<string[]> {
  const found: string[] = [];
  for (const { path, fields, body } of routes) {
    for (const [field, kind] of Object.entries(fields)) {
      for (const [name, value] of Object.entries(VALUES) as [Name, string][]) {
        const { status, text } = await send(path, body(`"${field}":${value}`));
        const says = `${path} ${field} ${kind} = ${value}: ${status} ${text.slice(0, 200)}`;
        const isRefused = status === 400 || status === 422;
        if (status >= 500 || (!isTaken(kind, name) && !(isRefused && text.includes(field)))) found.push(says);
      }
    }
  }
  return found;
}

describe('values of another type', () => {
  let environment: EnvironmentClient;
  beforeAll(async () => {
    environment = await environmentClient(new TalkEnv());
  });
  afterAll(() => environment[Symbol.asyncDispose]());

  const post = async (url: string, body: string): Promise<Answer> => {
    const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    return { status: response.status, text: await response.text() };
  };

  it('are refused by name by vf-serve policy', async () => {
    const send = async (path: string, body: string) => {
      const parsed = POLICY_PARSERS[path]!(JSON.parse(body));
      return parsed.ok ? { status: 200, text: '' } : { status: 400, text: parsed.problem.message };
    };
    expect(await faults(POLICY, send)).toEqual([]);
  });

  it('are refused by name by vf-serve environment, and by OpenEnv over HTTP', async () => {
    expect(await faults(ENVIRONMENT, (path, body) => post(environment.url + path, body))).toEqual([]);
    expect(environment.failures).toEqual([]);
  });

  it('are refused by name in a frame of OpenEnv', async () => {
    const socket = new WebSocket(`${environment.url.replace('http', 'ws')}/ws`);
    await once(socket, 'open');
    const send = async (_: string, body: string): Promise<Answer> => {
      const answered = once(socket, 'message') as Promise<[{ readonly data: string }]>;
      socket.send(body);
      const [{ data: text }] = await answered;
      return { status: text.startsWith('{"type":"error"') ? 422 : 200, text };
    };
    const fields: Fields = { seed: 'integer?', episode_id: 'text?', example_id: 'id?' };
    expect(await faults([{ path: 'reset', fields, body: (field) => `{"type":"reset","data":{${field}}}` }], send)).toEqual([]);
    expect((await send('', '{"type":"reset","data":{"example_id":9007199254740993}}')).text).toContain('9007199254740993');
    socket.close();
  });

  it('are refused in the entry of a step that holds them', async () => {
    const send = async (_: string, body: string): Promise<Answer> => {
      const { status, text } = await post(`${environment.url}/v1/episodes/step`, `{"episodes":[${body}]}`);
      const [entry] = (JSON.parse(text) as { episodes: { error: { message: string } }[] }).episodes;
      return { status: status === 200 && /^No episode|does not know/.test(entry!.error.message) ? 200 : 422, text: entry!.error.message };
    };
    const body = (field: string) => `{${turn},"text":"x"${field.startsWith('"turn"') ? '' : ',"turn":1'},${field}}`;
    expect(await faults([{ path: 'step', fields: STEP, body }], send)).toEqual([]);
  });

  it('are refused by name by vf-serve execute', async () => {
    const run = async () => ({ kind: 'ran', calls: [] }) as const;
    const executor = { run, analyse: async () => ({}), close: async () => {} } as unknown as CodeExecutor;
    const app = executionApp({ executor, host: '127.0.0.1', onFailure: () => {} });
    const headers = { 'content-type': 'application/json', host: '127.0.0.1' };
    const send = async (path: string, body: string): Promise<Answer> => {
      const response = await app.request(path, { method: 'POST', headers, body });
      return { status: response.status, text: await response.text() };
    };
    expect(await faults(EXECUTION, send)).toEqual([]);
  });

  it('are refused by the schemas of vf-serve verifiers', async () => {
    const check = (schema: object) => async (_: string, body: string) => {
      const validate = schemaCheck(schema);
      return { status: validate(JSON.parse(body)) ? 200 : 422, text: body };
    };
    const run = '"client":{"base_url":"http://127.0.0.1:1"}';
    const routes = {
      task: { path: 'run', fields: { example_id: 'id?', idx: 'integer?' }, body: (field: string) => `{"model":"m",${run},"task_data":{${field}}}` },
      model: { path: 'run', fields: { model: 'text' }, body: within(`${run},"task_data":{}`) },
      tasks: { path: 'tasks', fields: { offset: 'integer', limit: 'integer' }, body: within('') },
    } as const;
    expect(await faults([routes.task, routes.model], check(RunRequestSchema))).toEqual([]);
    expect(await faults([routes.tasks], check(TasksRequestSchema))).toEqual([]);
  });

  it('are taken by vf-serve retrieve as pydantic 2 takes them behind the server of Search-R1', async () => {
    const app = retrievalApp({ retriever: new WordRetriever([]) });
    const headers = { 'content-type': 'application/json' };
    const taken = async (body: string, path = '/retrieve') => (await app.request(path, { method: 'POST', headers, body })).status === 200;
    const takes = async (field: string) => {
      const names: Name[] = [];
      for (const [name, value] of Object.entries(VALUES) as [Name, string][])
        if (await taken(`{"queries":["x"],"${field}":${value}}`)) names.push(name);
      return names;
    };
    expect(await takes('topk')).toEqual(['yes', 'no', 'digits', 'whole', 'minusZero', 'null']);
    expect(await takes('return_scores')).toEqual(['yes', 'no', 'word', 'whole', 'minusZero']);
  });
});
