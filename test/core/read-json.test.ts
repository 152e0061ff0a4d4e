import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { describeError, PolicyError, thrownText } from '../../src/core/errors.ts';
import { readJson } from '../../src/core/read-json.ts';

const SECRET = 'hunter2-secret';

function failureOf(text: string): SyntaxError {
  try {
    readJson(text);
  } catch (error) {
    return error as SyntaxError;
  }
  return expect.unreachable('the text is JSON');
}

describe('readJson', () => {
  it('gives what JSON.parse gives {any JSON}', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(readJson(text)).toEqual(JSON.parse(text));
      }),
    );
  });

  it.each([`${SECRET} `, `{"key": ${SECRET}}`, `["${SECRET}" "${SECRET}"]`, `{"a": 1} ${SECRET}`, `"${SECRET}`])('quotes nothing of %s', (text) => {
    const error = failureOf(text);
    expect(error).toBeInstanceOf(SyntaxError);
    for (const said of [error.message, String(error.stack), describeError(error)]) expect(said).not.toMatch(/hunter|secret/);
    expect(error.cause).toBeUndefined();
  });

  it('names the place if the engine does', () => {
    expect(failureOf('{"a": 1,}').message).toMatch(/position 8/);
  });
});

describe('describeError', () => {
  it('says once what several errors of the chain say', () => {
    const cause = new Error('no save');
    const error = new PolicyError('saveState failed: Error: no save', { cause: new PolicyError('saveState failed: Error: no save', { cause }) });
    expect(describeError(error)).toBe('PolicyError: saveState failed: Error: no save');
    expect(describeError(new PolicyError('It failed', { cause }))).toBe('PolicyError: It failed <- Error: no save');
  });

  it('leaves the excerpt of a JSON parser out, wherever in the chain it stands', () => {
    let raw: unknown;
    try {
      JSON.parse(`${SECRET} `);
    } catch (error) {
      raw = error;
    }
    expect((raw as Error).message).toContain('hunter2');
    for (const text of [thrownText(raw), describeError(new PolicyError('It failed', { cause: raw }))]) {
      expect(text).toContain("Unexpected token 'h'");
      expect(text).not.toContain('hunter2');
    }
  });
});
