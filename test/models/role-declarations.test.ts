import { describe, expect, test } from 'vitest';
import { scriptedModel } from '../../src/core/builtin-judges.ts';
import { ModelError } from '../../src/core/errors.ts';
import { LazyModels } from '../../src/models/lazy-models.ts';
import { checkRoleDeclarations } from '../../src/models/role-declarations.ts';

const builtin = scriptedModel({ replies: ['yes'] });

describe('checkRoleDeclarations', () => {
  test('accepts what an environment may declare, and no declaration at all', () => {
    const roles = {
      judge: { about: 'a', default: 'builtin', builtin },
      'critic-2': { about: 'b', default: null },
      gen_1: { about: 'c', default: 'policy' },
    };
    expect(checkRoleDeclarations(roles, 'x')).toBe(roles);
    expect(checkRoleDeclarations(undefined, 'x')).toEqual({});
  });

  test.each<[unknown, string]>([
    [[], 'The roles of env.ts are not an object.'],
    [{ Judge: { about: 'a', default: null } }, 'Role "Judge" of env.ts cannot be used: its name must start with a lower-case letter'],
    [{ ['__proto__']: { about: 'a', default: null } }, 'Role "__proto__" of env.ts cannot be used'],
    [{ judge: 'x' }, 'it is not an object'],
    [{ judge: { about: ' ', default: null } }, 'about must describe what the model does'],
    [{ judge: { about: 'a' } }, 'default must be "builtin", "policy" or null, not undefined'],
    [{ judge: { about: 'a', default: 'builtin' } }, 'its default is "builtin", but it declares no builtin model'],
    [{ judge: { about: 'a', default: null, builtin: {} } }, 'its builtin is not a Model'],
  ])('refuses %j', (value, message) => {
    expect(() => checkRoleDeclarations(value, 'env.ts')).toThrow(message);
  });
});

describe('LazyModels', () => {
  const ask = (lazy: LazyModels) =>
    lazy.models['judge']!.generate([{ role: 'user', content: '?' }], { maxTokens: 1, signal: new AbortController().signal });

  test('answer once they are bound, and say before that they are not', async () => {
    const lazy = new LazyModels();
    lazy.declare({ judge: { about: 'a', default: null } });
    expect([Object.keys(lazy.models), lazy.models['judge']!.name]).toEqual([['judge'], 'judge']);
    const error = await ask(lazy).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ModelError);
    expect(error).toMatchObject({ role: 'judge', reason: 'not_set_up', retryable: false });
    lazy.bind({ judge: builtin });
    expect((await ask(lazy)).text).toBe('yes');
    expect(lazy.models['judge']!.name).toBe('scripted');
  });
});
