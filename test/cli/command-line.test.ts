import { spawnSync } from 'node:child_process';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { errorLine } from '../../src/cli/command-line.ts';
import { closestName } from '../../src/core/closest-name.ts';
import { shellCommand } from '../../src/reports/text/own-command.ts';
import { ConfigError } from '../../src/core/errors.ts';
import { TemporaryFolder } from './eval/temporary-folder.ts';

const systemError = (code: string, errno: number, path?: string) =>
  Object.assign(new Error(`${code}: something`), { code, errno, ...(path === undefined ? {} : { path }) });

describe('errorLine', () => {
  it.each([
    [new ConfigError('Expected a, got b\n  in the file\u001b[31m'), 'Expected a, got b in the file\\x1b[31m'],
    [systemError('ENOSPC', -28, '/out/results.jsonl'), 'the disk is full (/out/results.jsonl); free some space and run the command again'],
    [systemError('EACCES', -13, '/out'), 'permission denied: /out (EACCES)'],
    [new TypeError('x is undefined'), 'unexpected TypeError: x is undefined (-v shows where; please report it)'],
    ['thrown text', 'thrown text'],
  ])('puts %s into one line', (error, line) => {
    expect(errorLine(error)).toBe(line);
  });
});

describe('closestName', () => {
  it('finds what was meant and nothing else', () => {
    const known = ['--num-examples', '--max-tokens', '--seed'];
    expect(closestName('--num-exmaples', known)).toBe('--num-examples');
    expect(closestName('--sede', known)).toBe('--seed');
    expect(closestName('--frobnicate', known)).toBeNull();
    expect(closestName('x'.repeat(100_000), known)).toBeNull();
  });
});

describe('shellCommand', () => {
  it('gives a line that a shell reads back word for word', () => {
    const words = ['search-r1', '-a', `{"a": "it's $HOME"}`, '-n', '-1', '*', ''];
    const { stdout } = spawnSync('/bin/sh', ['-c', `printf '%s\\n' ${shellCommand(words)}`], { encoding: 'utf8' });
    expect(stdout).toBe(`${words.join('\n')}\n`);
  });
});

describe('bin/vf-eval.js', () => {
  it('names the Node of the clone where the one that runs it is too old', () => {
    const old = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.9.0' } })`;
    const bin = join(import.meta.dirname, '../../bin/vf-eval.js');
    const { status, stderr } = spawnSync(process.execPath, ['--import', `data:text/javascript,${old}`, bin], { encoding: 'utf8' });
    expect(status).toBe(2);
    const node = join(import.meta.dirname, '../../node_modules/.bin/node');
    expect(stderr).toBe(`vf-eval: Node 22.12 or newer is needed, but this is Node 20.9.0; install a newer Node, or run ${node} ${bin}\n`);
  });

  it('says what is missing where the package was not built', () => {
    using folder = new TemporaryFolder();
    cpSync(join(import.meta.dirname, '../../bin'), join(folder.path, 'bin'), { recursive: true });
    folder.write('package.json', '{"type": "module"}');
    const { status, stderr } = spawnSync(process.execPath, [join(folder.path, 'bin/vf-eval.js')], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({
      status: 2,
      stderr: 'vf-eval: the compiled package is missing from dist/; run `npm run build` first\n',
    });
  });
});
