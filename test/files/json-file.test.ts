import { execFileSync } from 'node:child_process';
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { jsonFieldsAt, jsonObjectAt, readJsonFileSync } from '../../src/files/json-file.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';

let folder: TemporaryFolder;
beforeAll(() => {
  folder = new TemporaryFolder();
});
afterAll(() => folder[Symbol.dispose]());

const file = (text: string | Buffer, name = 'a.json') => {
  const path = join(folder.path, name);
  writeFileSync(path, text);
  return path;
};

describe('readJsonFileSync', () => {
  it('reads any JSON, keeps every digit and loses no key', () => {
    expect(readJsonFileSync(file('{"a":9007199254740993,"b":1e999,"c":-0}'))).toEqual({ a: '9007199254740993', b: '1e999', c: -0 });
    expect(Object.keys(readJsonFileSync(file('{"__proto__":{"x":1}}')) as object)).toEqual(['__proto__']);
    expect(readJsonFileSync(file('null'))).toBeNull();
  });

  it.each([
    ['text that ends early', '{"a":\n1,', /is not JSON: .*line 2/],
    ['nothing', '', /is not JSON: Unexpected end/],
    ['many levels', '['.repeat(100_000), /nests lists and objects more than 64 levels deep/],
    ['millions of lists', `[${'[],'.repeat(1_500_000)}[]]`, /has more than 1,048,576 lists, objects and keys/],
    ['bytes that are no text', Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), /UTF-8/],
  ])('refuses %s in one line that names the file', (_, text, message) => {
    const path = file(text);
    const refusal = () => readJsonFileSync(path);
    expect(refusal).toThrow(ConfigError);
    expect(refusal).toThrow(message);
    expect(refusal).toThrow(path);
    expect(refusal).not.toThrow('\n');
  });

  it('refuses a large file before it reads it, and what is no file', () => {
    const large = file('');
    truncateSync(large, 2 ** 34);
    expect(() => readJsonFileSync(large)).toThrow('a.json has 17,179,869,184 bytes, more than the limit of 16,777,216');
    mkdirSync(join(folder.path, 'folder'));
    expect(() => readJsonFileSync(join(folder.path, 'folder'))).toThrow(/is a folder, not a file/);
    execFileSync('mkfifo', [join(folder.path, 'pipe')]);
    expect(() => readJsonFileSync(join(folder.path, 'pipe'))).toThrow(/is a pipe; name a regular file/);
    expect(() => readJsonFileSync(join(folder.path, 'missing'))).toThrow(/does not exist/);
  });
});

describe('jsonObjectAt and jsonFieldsAt', () => {
  it('give the fields of an object alone', () => {
    expect(jsonObjectAt(file('{"a":1}'))).toEqual({ a: 1 });
    for (const text of ['null', '[1]', '"a"', '{']) expect(jsonObjectAt(file(text))).toBeNull();
    for (const text of ['null', '[1]', '"a"']) expect(jsonFieldsAt(file(text))).toEqual({});
    expect(() => jsonFieldsAt(file('{'))).toThrow(ConfigError);
  });
});
