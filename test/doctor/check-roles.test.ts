import { describe, expect, it } from 'vitest';
import { checkRoles } from '../../src/doctor/check-roles.ts';
import { scriptedModel } from '../../src/core/builtin-judges.ts';
import type { RoleDeclarations } from '../../src/core/model.ts';
import { chatServer } from '../models/chat-server.ts';
import { loopback, refusingUrl, sendJson } from '../transport/loopback.ts';

const roles: RoleDeclarations = {
  judge: { about: 'judges', default: 'builtin', builtin: scriptedModel({ replies: [] }) },
  critic: { about: 'criticises', default: 'policy' },
};
const options = { variables: { KEY: 'sk-judge-1234' }, signal: new AbortController().signal };
const judgeAt = async (table: object) => (await checkRoles(roles, { judge: table }, options))[0];

describe('checkRoles', () => {
  it('says who plays each role', async () => {
    expect(await checkRoles(roles, {}, options)).toEqual([
      { name: 'role', state: 'ok', text: "judge: scripted (builtin), the environment's default" },
      { name: 'role', state: 'ok', text: "critic: the policy itself, the environment's default" },
    ]);
    expect(await checkRoles({}, {}, options)).toEqual([]);
  });

  it('asks servers whether they are up and list the model', async () => {
    await using server = await chatServer(() => 'x');
    const base_url = `${server.url}/v1`;
    expect(await judgeAt({ base_url, model: 'judge-model' })).toEqual({ name: 'role', state: 'ok', text: `judge: judge-model at ${base_url}` });
    expect(await judgeAt({ base_url, model: 'other' })).toMatchObject({
      state: 'warning',
      text: expect.stringContaining('does not list other among its models (judge-model)'),
    });
    expect(server.bodies).toEqual([]);
  });

  it('names what is wrong with a server, and never its key', async () => {
    await using closed = await loopback((_, response) => sendJson(response, 401, { error: { message: 'bad key sk-judge-1234' } }));
    expect(await judgeAt({ base_url: `${closed.url}/v1`, model: 'm', api_key_var: 'KEY' })).toMatchObject({
      state: 'missing',
      text: `The server of role judge at ${closed.url}/v1 rejected the API key (status 401). Check $KEY.`,
    });
    await using several = await loopback((_, response) => sendJson(response, 200, { data: [{ id: 'a' }, { id: 'b' }] }));
    expect(await judgeAt({ base_url: `${several.url}/v1` })).toMatchObject({
      state: 'missing',
      text: expect.stringContaining('serves 2 models (a, b). Name the model'),
    });
    expect(await judgeAt({ base_url: `${await refusingUrl()}/v1` })).toMatchObject({
      state: 'missing',
      text: expect.stringContaining('cannot be reached: connect ECONNREFUSED'),
    });
  });

  it('a binding that cannot be used is missing, with the remedy', async () => {
    expect(await checkRoles(roles, { jduge: {} }, options)).toEqual([
      { name: 'roles', state: 'missing', text: expect.stringContaining('did you mean judge?'), remedy: 'correct [roles] in the configuration' },
    ]);
  });
});
