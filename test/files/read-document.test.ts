import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { parseYaml, readDocument } from '../../src/files/read-document.ts';

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), 'document-'))));
afterAll(() => rm(folder, { recursive: true }));

describe('readDocument', () => {
  it('reads YAML 1.1 and JSON alike', async () => {
    await writeFile(join(folder, 'a.yaml'), 'group_size: 4\nstrict: yes\nlearning_rate: 1.0e-5\nnested: [1, {x: "y"}]\n');
    await writeFile(join(folder, 'a.json'), '\ufeff{"group_size": 4, "strict": true, "learning_rate": 1e-5, "nested": [1, {"x": "y"}]}');
    const expected = { group_size: 4, strict: true, learning_rate: 1e-5, nested: [1, { x: 'y' }] };
    expect(await readDocument(join(folder, 'a.yaml'))).toEqual(expected);
    expect(await readDocument(join(folder, 'a.json'))).toEqual(expected);
  });

  it.each([
    ['missing.yaml', null, /does not exist$/],
    ['.', null, /is a folder|must be a file|not a file/],
    ['torn.json', '{"a": ', /torn\.json is not JSON/],
    ['twice.yaml', 'a: 1\na: 2\n', /twice\.yaml is not YAML: .*unique/],
    ['open.yaml', 'a: [1\n', /open\.yaml is not YAML/],
    ['python.yaml', 'a: !!python/object/apply:os.system ["true"]\n', /python\.yaml is not YAML: .*tag/],
    ['own.yaml', 'a: !env KEY\n', /own\.yaml is not YAML: .*tag/],
    ['two.yaml', 'a: 1\n---\nb: 2\n', /two\.yaml is not YAML/],
    ['large.yaml', ' '.repeat(17 * 2 ** 20), /large\.yaml has 17,825,792 bytes/],
  ])('refuses %s in one line', async (name, text, message) => {
    const path = join(folder, name);
    if (text !== null) await writeFile(path, text);
    const failure = await readDocument(path).catch((error: unknown) => error as Error);
    expect(failure).toBeInstanceOf(ConfigError);
    expect((failure as Error).message).toMatch(message);
    expect((failure as Error).message).not.toContain('\n');
  });
});

describe('parseYaml', () => {
  it('refuses aliases that stand for billions of values', async () => {
    const levels = Array.from({ length: 20 }, (_, i) => `l${i + 1}: &l${i + 1} [${Array(9).fill(`*l${i}`).join(', ')}]`);
    await expect(parseYaml(['l0: &l0 [x]', ...levels].join('\n'), 'bomb')).rejects.toThrow(/^bomb is not YAML: .*alias/i);
    expect(await parseYaml('a: &a [1]\nb: *a\n', 'fine')).toEqual({ a: [1], b: [1] });
  });
});
