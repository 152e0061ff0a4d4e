import { describe, expect, test } from 'vitest';
import { checkRoleTables } from '../../../src/sessions/roles/check-role-tables.ts';
import { parseRoleFlag } from '../../../src/sessions/roles/role-flag.ts';
import { secretsOf } from '../../../src/sessions/policy/secrets.ts';
import { resolveRoles } from '../../../src/sessions/roles/resolve-roles.ts';
import { scriptedModel } from '../../../src/core/builtin-judges.ts';
import type { RoleDeclarations } from '../../../src/core/model.ts';
import type { RoleTable } from '../../../src/schemas/roles-config.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';

const builtin = scriptedModel({ replies: [] });
const roles: RoleDeclarations = { judge: { about: 'judges.', default: 'builtin', builtin }, critic: { about: 'criticises', default: 'policy' } };
const REGISTRY = `
[[endpoint]]
endpoint_id = "near"
model = "n"
url = "http://127.0.0.1:8001/v1"
key = "NEAR_KEY"
headers = { "X-Auth" = "team-secret-1" }
[[endpoint]]
endpoint_id = "near"
model = "n"
url = "http://127.0.0.1:8002/v1"
key = "NEAR_KEY"
headers = { "X-Auth" = "team-secret-1" }
[[endpoint]]
endpoint_id = "far"
model = "f"
url = "https://far.example/v1"
key = "FAR_KEY"
[[endpoint]]
endpoint_id = "torn"
model = "a"
url = "http://a/v1"
[[endpoint]]
endpoint_id = "torn"
model = "b"
url = "http://b/v1"
`;

async function judge(table: RoleTable, variables: Readonly<Record<string, string>> = {}) {
  using folder = new TemporaryFolder();
  const [resolved] = await resolveRoles(roles, { judge: table }, { endpointsPath: folder.write('endpoints.toml', REGISTRY), variables });
  return resolved!;
}

describe('parseRoleFlag', () => {
  test.each([
    ['judge=builtin', { judge: { use: 'builtin' } }],
    ['judge = gpt-4.1-mini', { judge: { use: 'gpt-4.1-mini' } }],
    ['judge=http://h/v1', { judge: { base_url: 'http://h/v1' } }],
    ['judge=org/name:tag@https://me:pw@h/v1?k=a=b', { judge: { model: 'org/name:tag', base_url: 'https://me:pw@h/v1?k=a=b' } }],
    ['judge=https://me:pw@h/v1', { judge: { base_url: 'https://me:pw@h/v1' } }],
  ])('%s', (text, tables) => {
    expect(parseRoleFlag(text, '--role')).toEqual(tables);
  });

  test.each(['judge', '=x', 'judge=', ''])('%j names no role or no model', (text) => {
    expect(() => parseRoleFlag(text, '--role')).toThrow('--role needs a role and its model');
  });

  test('shows no password', () => {
    expect(() => parseRoleFlag('https://me:hunter22@h/v1', '--role')).toThrow(/^(?!.*hunter22).*\*\*\*@h/);
  });
});

describe('checkRoleTables', () => {
  test.each<[unknown, string]>([
    [{ judge: { base_ur: 'x' } }, 'Unknown key base_ur of role judge in runs.toml (did you mean base_url?); known are use, base_url'],
    [{ judge: { max_concurrent: 1.5 } }, 'max_concurrent of role judge in runs.toml must be an integer of at least 1, got 1.5.'],
    [{ judge: { timeout_s: 0 } }, 'timeout_s of role judge in runs.toml must be a number above 0, got 0.'],
    [{ judge: { base_url: [] } }, 'base_url of role judge in runs.toml must be a non-empty string or a list of strings.'],
    [{ judge: { api_key_var: 5 } }, 'api_key_var of role judge'],
    [{ judge: 'builtin' }, 'role judge must be a table, such as [roles.judge] with use = "builtin"'],
    [3, 'runs.toml must be a table of roles'],
  ])('refuses %j', (value, message) => {
    expect(() => checkRoleTables(value, 'runs.toml')).toThrow(message);
  });

  test('takes every key of the schema', () => {
    const table = {
      base_url: ['http://a/v1'],
      model: 'm',
      api_key_var: 'K',
      max_concurrent: 1,
      timeout_s: 0.5,
      max_retries: 0,
      budget_calls: 1,
      budget_tokens: 1,
      cache: 'off',
    };
    expect(checkRoleTables({ judge: table, critic: { use: 'x' } }, 'runs.toml')).toEqual({ judge: table, critic: { use: 'x' } });
  });
});

describe('resolveRoles', () => {
  test('the environment says who plays a role by default', async () => {
    const resolved = await resolveRoles(roles, {}, { variables: {} });
    expect(resolved.map(({ role, player, isDefault }) => [role, player.kind, isDefault])).toEqual([
      ['judge', 'builtin', true],
      ['critic', 'policy', true],
    ]);
  });

  test('an alias stands for all of its replicas, with its model, headers and key', async () => {
    const resolved = await judge({ use: 'near', max_concurrent: 2 }, { NEAR_KEY: 'near-key-1234' });
    expect(resolved.player).toMatchObject({
      baseUrls: ['http://127.0.0.1:8001/v1', 'http://127.0.0.1:8002/v1'],
      model: 'n',
      apiKey: 'near-key-1234',
      alias: 'near',
    });
    expect([...secretsOf({ roles: [resolved] })]).toEqual(['near-key-1234', 'team-secret-1']);
  });

  test('a key may be missing only on this machine', async () => {
    expect((await judge({ use: 'near' })).player).toMatchObject({ apiKey: null });
    await expect(judge({ use: 'far' })).rejects.toThrow(
      'The environment variable FAR_KEY holds no API key for role judge; export it or put it in ./.env',
    );
  });

  test('a key goes to the server that it belongs to, and to no other', async () => {
    const variables = { OPENAI_API_KEY: 'sk-of-openai', VF_API_KEY: 'sk-of-policy', MINE: 'sk-mine' };
    const keyAt = async (table: RoleTable) => ((await judge(table, variables)).player as { apiKey: string | null }).apiKey;
    expect(await keyAt({ base_url: 'https://api.openai.com/v1/' })).toBe('sk-of-openai');
    expect(await keyAt({ base_url: 'https://api.openai.com.evil.example/v1' })).toBeNull();
    expect(await keyAt({ base_url: ['https://api.openai.com/v1', 'https://evil.example/v1'] })).toBeNull();
    expect(await keyAt({ base_url: 'https://evil.example/v1', api_key_var: 'MINE' })).toBe('sk-mine');
  });

  test.each<[RoleTable, string]>([
    [{ use: 'far', base_url: 'http://h/v1' }, 'roles.judge.use cannot be used here: base_url already sets the server. Leave it out.'],
    [{ use: 'near', model: 'm' }, 'roles.judge.model cannot be used here: it names a model at base_url, which is not set.'],
    [
      { use: 'policy', api_key_var: 'K' },
      'roles.judge.api_key_var cannot be used here: it is for the key of a server, and no server plays the role.',
    ],
    [{ use: 'policy', cache: 'memory' }, 'roles.judge.cache cannot be used here: the replies of the policy change with its weights.'],
    [{ cache: 'a.jsonl' }, 'roles.judge.cache cannot be used here: a builtin model runs in this process.'],
    [{ base_url: 'ftp://me:hunter22@h/v1' }, 'The URL of role judge must begin with http:// or https://, got "ftp://***@h/v1".'],
    [{ base_url: 'http://h/v1', api_key_var: 'sk-123-the-key' }, 'must be the name of an environment variable'],
    [{ use: 'torn' }, 'The [[endpoint]] tables of alias torn in '],
    [{ use: 'neer' }, '(did you mean near?)'],
  ])('refuses %j', async (table, message) => {
    await expect(judge(table)).rejects.toThrow(message);
  });

  test("gives a role at the policy's own server its key and headers, and no other", async () => {
    const policyServer = { baseUrls: ['https://api.example/v1'], apiKey: 'k', keyVariable: 'OWN_KEY', headers: { 'x-team': 'a' } };
    const player = async (table: RoleTable) => (await resolveRoles(roles, { judge: table }, { variables: { OTHER: 'o' }, policyServer }))[0]!.player;
    expect(await player({ base_url: 'https://api.example/v2' })).toMatchObject({ apiKey: 'k', keyVariable: 'OWN_KEY', headers: { 'x-team': 'a' } });
    expect(await player({ base_url: 'https://other.example/v1' })).toMatchObject({ apiKey: null, headers: {} });
    expect(await player({ base_url: 'https://api.example:8443/v1' })).toMatchObject({ apiKey: null, headers: {} });
    expect(await player({ base_url: 'https://api.example/v1', api_key_var: 'OTHER' })).toMatchObject({ apiKey: 'o', headers: {} });
  });

  test('takes every value of stream that its table allows', () => {
    for (const stream of ['auto', true, false]) expect(() => checkRoleTables({ judge: { stream } }, 'x')).not.toThrow();
    for (const stream of ['yes', 1, null]) expect(() => checkRoleTables({ judge: { stream } }, 'x')).toThrow('must be "auto" or true or false');
  });
});
