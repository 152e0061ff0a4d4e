/** What the requests of a role have, whichever way the user says it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { Model } from '../../../src/core/model.ts';
import { openRoleModels } from '../../../src/models/role-models.ts';
import { mergeRoleTables } from '../../../src/schemas/merge-role-tables.ts';
import type { RoleTable, RoleTables } from '../../../src/schemas/roles-config.ts';
import { openRoles, type RolePolicy } from '../../../src/sessions/roles/open-roles.ts';
import { resolveRoles } from '../../../src/sessions/roles/resolve-roles.ts';
import { parseRoleFlag } from '../../../src/sessions/roles/role-flag.ts';
import { type ChatRequest, chatServer } from '../../models/chat-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-role-sampling-'));
afterAll(() => rmSync(folder, { recursive: true }));
const { signal } = new AbortController();
const DECLARED = { judge: { about: 'scores', default: null } } as const;

/** The request of a role that the environment asks for at most 64 tokens, by its server, and the role's identity. */
async function asked(table: (url: string) => RoleTable, more: { times?: number; endpoints?: (url: string) => string } = {}) {
  await using server = await chatServer(() => 'yes');
  const endpointsPath = more.endpoints === undefined ? null : join(folder, 'endpoints.toml');
  if (endpointsPath !== null) writeFileSync(endpointsPath, more.endpoints!(`${server.url}/v1`));
  const resolved = await resolveRoles(DECLARED, { judge: table(`${server.url}/v1`) }, { endpointsPath, variables: {} });
  const context = { policy: {} as RolePolicy, secrets: new Set<string>(), onNotice: () => {}, signal };
  await using roles = await openRoles(resolved, context);
  for (let i = 0; i < (more.times ?? 1); i++)
    await roles.models.models['judge']!.generate([{ role: 'user', content: 'q' }], { maxTokens: 64, signal });
  return { bodies: server.bodies, identity: roles.identities['judge'], description: roles.descriptions.get('judge') };
}

const fieldsOf = (body: ChatRequest) => Object.fromEntries(Object.entries(body).filter(([name]) => name !== 'messages' && name !== 'model'));

describe('the requests of a role', () => {
  it('are greedy unless the user says otherwise, without top_p', async () => {
    const { bodies, identity } = await asked((url) => ({ base_url: url }), { times: 2 });
    // The second is answered from the cache.
    expect(bodies.map(fieldsOf)).toEqual([{ temperature: 0, max_tokens: 64 }]);
    expect(identity).toBe('judge-model');
  });

  it('have the fields of the table in place of those of the environment; "unset" leaves one out', async () => {
    const table = { sampling: { temperature: 'unset', top_p: 0.9, top_k: 20 }, reasoning_effort: 'medium', max_tokens: 4096 };
    const { bodies, identity, description } = await asked((url) => ({ base_url: url, ...table }), { times: 2 });
    // No cache: the replies are not greedy.
    const sent = { top_p: 0.9, top_k: 20, reasoning_effort: 'medium', max_tokens: 4096 };
    expect(bodies.map(fieldsOf)).toEqual([sent, sent]);
    expect(identity).toBe('judge-model {"top_p":0.9,"max_tokens":4096,"top_k":20,"reasoning_effort":"medium","temperature":null}');
    expect(description).toMatch(/, asked with \{"top_p":0\.9,/);
  });

  it('have those of the alias, under those of the table', async () => {
    const alias = (url: string) =>
      `[[endpoint]]\nendpoint_id = "mini"\nmodel = "judge-model"\nurl = "${url}"\nreasoning_effort = "low"\nmax_tokens = 9\nsampling = { temperature = 1, top_p = 0.5 }\n`;
    const { bodies } = await asked(() => ({ use: 'mini', max_tokens: 10, sampling: { top_p: 'unset' } }), { endpoints: alias });
    expect(bodies.map(fieldsOf)).toEqual([{ temperature: 1, max_tokens: 10, reasoning_effort: 'low' }]);
  });

  it('are part of the key of a kept reply', async () => {
    const path = join(folder, 'replies.jsonl');
    const count = async (table: RoleTable) => (await asked(() => ({ base_url: server.url, cache: path, ...table }))).bodies.length;
    await using live = await chatServer(() => 'yes');
    const server = { url: `${live.url}/v1` };
    for (const max_tokens of [64, 128, 128]) await count({ max_tokens });
    expect(live.bodies.map(({ max_tokens }) => max_tokens)).toEqual([64, 128]);
  });

  it.each<readonly [string, RoleTable, string]>([
    ['a builtin model', { use: 'builtin', max_tokens: 9 }, 'roles.judge.max_tokens cannot be used here: it is for the requests to a model'],
    [
      'a field of the caller',
      { base_url: 'http://h/v1', sampling: { messages: [] } },
      'sampling of roles.judge cannot set "messages": the environment',
    ],
    [
      'a value out of range',
      { base_url: 'http://h/v1', sampling: { top_p: 2 } },
      'top_p in sampling of roles.judge must be a number above 0 and up to 1, got 2',
    ],
    ['a misspelled field', { base_url: 'http://h/v1', sampling: { temprature: 1 } }, 'has no "temprature"; did you mean temperature?'],
    ['a field twice', { base_url: 'http://h/v1', reasoning_effort: 'low', sampling: { reasoning_effort: 'high' } }, 'Leave one out.'],
    [
      'an unknown key',
      { base_url: 'http://h/v1', max_token: 9 } as RoleTable,
      'Unknown key max_token of role judge in the roles of this run (did you mean max_tokens?)',
    ],
    ['no table', { base_url: 'http://h/v1', sampling: 1 as never }, 'sampling of role judge in the roles of this run must be'],
  ])('refuse %s', async (_, table, message) => {
    const builtin: Model = { name: 'b', generate: () => Promise.reject(new Error('not asked')) };
    await expect(resolveRoles({ judge: { ...DECLARED.judge, builtin } }, { judge: table }, { variables: {} })).rejects.toThrow(message);
  });
});

describe('parseRoleFlag()', () => {
  it('sets single keys of the table of a role, over what was given before', () => {
    const words = [
      'judge=m@http://h/v1',
      'judge.max_tokens=4096',
      'judge.reasoning_effort=low',
      'judge.sampling={"top_p": 0.9}',
      'judge.sampling.temperature=null',
    ];
    const tables = words.reduce<RoleTables>((before, word) => mergeRoleTables(before, parseRoleFlag(word, '--role')), {});
    expect(tables).toEqual({
      judge: { model: 'm', base_url: 'http://h/v1', max_tokens: 4096, reasoning_effort: 'low', sampling: { top_p: 0.9, temperature: null } },
    });
    expect(mergeRoleTables(tables, { judge: { use: 'builtin' } })).toEqual({ judge: { use: 'builtin' } });
    expect(mergeRoleTables(tables, { judge: { use: 'other' } })['judge']).toMatchObject({ use: 'other', max_tokens: 4096 });
    const oneCommand = mergeRoleTables(
      { judge: { max_tokens: 5, model: 'm', base_url: 'http://h/v1' } },
      { judge: { use: 'builtin' } },
      { areOneLayer: true },
    );
    expect(oneCommand).toEqual({ judge: { use: 'builtin', max_tokens: 5 } });
    expect(() => parseRoleFlag('judge.budget.calls=3', '--role')).toThrow('--role sets one key of a role, such as judge.max_tokens=4096');
  });
});

describe('totalTimeoutMs', () => {
  it('ends a call with all its retries', async () => {
    const model: Model = { name: 'stuck', generate: () => new Promise<never>(() => {}) };
    await using roles = await openRoleModels({ judge: { model, timeoutMs: 10, baseDelayMs: 1, maxRetries: 1_000_000, totalTimeoutMs: 60 } });
    const call = roles.models['judge']!.generate([], { maxTokens: 1, signal });
    await expect(call).rejects.toMatchObject({
      name: 'ModelError',
      message: /There was no answer within 0\.06 s, retries included\. Raise total_timeout_s\./,
    });
  });
});
