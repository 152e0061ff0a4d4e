import { spawnSync } from 'node:child_process';
import { mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { answerFileProblem, readAnswer } from '../../../environments/agent/answer.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';

const printed = (stdout: string) => ({ stdout, home: '/nonexistent', mostBytes: 1000 });

describe('readAnswer', () => {
  it('takes the last line that is not blank', async () => {
    expect(await readAnswer('line', printed('thinking\n  Paris \r\n\n \n'))).toEqual({ answer: 'Paris', output: {} });
    expect(await readAnswer('line', printed('> build\n\u001B[1;32mParis\u001B[0m\n\u001B[0m\n'))).toEqual({ answer: 'Paris', output: {} });
    expect(await readAnswer('line', printed(' \n'))).toBe('It printed nothing on stdout.');
  });

  it('takes the last JSON line with an answer, and its other keys', async () => {
    const lines = ['{"answer": "no"}', '{"answer": " Paris ", "searches": 2}', '{"log": 1}', '{"answer": oops', 'bye'];
    expect(await readAnswer('json', printed(lines.join('\n')))).toEqual({ answer: 'Paris', output: { searches: 2 } });
    expect(await readAnswer('json', printed('{"answer": 42}'))).toMatchObject({ answer: '42' });
    expect(await readAnswer('json', printed('{"answer": null}'))).toBe('The answer of its last JSON line is empty.');
    for (const text of ['Paris', '["answer"]', `${'{"a":'.repeat(5000)}1`, '{"__proto__": {"answer": "x"}}'])
      expect(await readAnswer('json', printed(text))).toMatch(/^It printed no line such as/);
  });

  it('takes a file of its folder, and no link out of it, pipe, device, folder or endless file', async () => {
    using folder = new TemporaryFolder();
    const home = join(folder.path, 'home');
    mkdirSync(join(home, 'sub'), { recursive: true });
    writeFileSync(join(folder.path, 'secret'), 'secret');
    writeFileSync(join(home, 'sub/answer.txt'), 'Paris\n');
    symlinkSync(join(folder.path, 'secret'), join(home, 'link'));
    symlinkSync(folder.path, join(home, 'up'));
    symlinkSync('sub/answer.txt', join(home, 'own-link'));
    symlinkSync('/dev/zero', join(home, 'zero'));
    spawnSync('mkfifo', [join(home, 'pipe')]);
    for (const name of ['large', 'empty']) writeFileSync(join(home, name), '');
    truncateSync(join(home, 'large'), 2 ** 33);
    const read = (file: string) => readAnswer({ file }, { stdout: '', home, mostBytes: 1000 });
    expect(await Promise.all(['sub/answer.txt', 'own-link'].map(read))).toEqual(Array.from({ length: 2 }, () => ({ answer: 'Paris', output: {} })));
    for (const [name, why] of [
      ['absent', 'It wrote no file absent.'],
      ['link', 'Its file link is a link to a place outside its folder.'],
      ['up/secret', 'Its file up/secret is a link to a place outside its folder.'],
      ['zero', 'Its file zero is a link to a place outside its folder.'],
      ['pipe', 'Its file pipe is not a regular file that can be read.'],
      ['sub', 'Its file sub is not a regular file that can be read.'],
      ['large', 'Its file large has 8589934592 bytes, more than the limit of 1000.'],
      ['empty', 'Its file empty is empty.'],
    ])
      expect(await read(name!)).toBe(why);
  });
});

describe('answerFileProblem', () => {
  it('refuses names outside the folder', () => {
    for (const name of ['', '.', '..', '../a', 'a/../../b', '/etc/passwd', 'a/', 'a\0b'])
      expect(answerFileProblem(name)).toMatch(/must lie in the agent's folder/);
    for (const name of ['answer.txt', 'out/answer.txt', 'a/../b']) expect(answerFileProblem(name)).toBeNull();
  });
});
