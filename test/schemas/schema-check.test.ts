import { describe, expect, it } from 'vitest';
import { anyOf, closed, listOf, text } from '../../src/schemas/json-schema.ts';
import { schemaCheck, schemaProblem } from '../../src/schemas/schema-check.ts';

describe('schemaProblem', () => {
  const check = schemaCheck(
    closed(
      { role: { enum: ['user', 'tool'] } },
      { size: { type: ['integer', 'null'] }, names: { type: 'array' }, said: anyOf({ type: 'string', minLength: 1 }, listOf(closed({ text }))) },
    ),
  );

  it.each([
    [[], 'it must be an object'],
    [{}, 'it must have the key "role"'],
    [{ role: 'human' }, 'role must be one of "user", "tool"'],
    [{ role: 'user', extra: 1 }, 'it must not have the key "extra"'],
    [{ role: 'user', size: 1.5 }, 'size must be an integer or null'],
    [{ role: 'user', names: 'a' }, 'names must be an array'],
    [{ role: 'user', said: 4 }, 'said must be a string or an array'],
    [{ role: 'user', said: '' }, 'said must not be empty'],
    [{ role: 'user', said: [{}] }, 'said[0] must have the key "text"'],
    [{ role: 'user', said: [{ text: 4 }] }, 'said[0].text must be a string'],
  ])('says of %j which keys and values are allowed', (value, message) => {
    expect(check(value)).toBe(false);
    expect(schemaProblem(check, 'it')).toBe(message);
  });
});
