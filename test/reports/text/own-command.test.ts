import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../../../src/data/package-root.ts';
import { ownCommand, shellCommand } from '../../../src/reports/text/own-command.ts';
import { redactUrl } from '../../../src/transport/redact.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';

class Tree extends TemporaryFolder {
  folder(name: string): string {
    mkdirSync(join(this.path, name), { recursive: true });
    return join(this.path, name);
  }
}

describe('ownCommand', () => {
  it('is npx alone where the package is installed, here or in a folder above', () => {
    using tree = new Tree();
    tree.folder('node_modules/.bin');
    tree.write('node_modules/.bin/vf-eval', '');
    const inner = tree.folder('environments/mine');
    tree.write('environments/mine/package.json', '{"name": "mine"}');
    for (const cwd of [tree.path, inner]) expect(ownCommand('vf-eval', ['mine', '-a', '{}'], { cwd })).toBe("npx vf-eval mine -a '{}'");
  });

  it('points npx at the clone from a package inside it', () => {
    using tree = new Tree();
    tree.write('package.json', '{"name": "vf-search"}');
    const plain = tree.folder('docs');
    const inner = tree.folder('environments/mine');
    tree.write('environments/mine/package.json', '{"name": "mine"}');
    for (const cwd of [tree.path, plain]) expect(ownCommand('vf-train', ['-R', 'x'], { cwd })).toBe('npx vf-train -R x');
    expect(ownCommand('vf-train', ['-R', 'x'], { cwd: inner })).toBe('npx --prefix ../.. vf-train -R x');
  });

  it('is what was run anywhere else, since npx would fetch whatever owns the name: the file, or the bare name where the PATH leads to it', () => {
    using tree = new Tree();
    tree.write('package.json', '{not json');
    const script = join(packageRoot(), 'bin/vf-eval.js');
    const asked = (path: string) => ownCommand('vf-eval', ['x'], { cwd: tree.path, path });
    expect(asked('')).toBe(`node ${script} x`);
    const [ours, other] = [tree.folder('ours'), tree.folder('other')];
    symlinkSync(script, join(ours, 'vf-eval'));
    tree.write('other/vf-eval', '');
    expect(asked(`/nowhere:${ours}:${other}`)).toBe('vf-eval x');
    expect(asked(`${other}:${ours}`)).toBe(`node ${script} x`);
    for (const command of [asked(''), asked(ours)]) expect(command).not.toContain('npx');
  });

  it('does not take a package in node_modules for its command, which npx would fetch', () => {
    using tree = new Tree();
    tree.folder('node_modules/vf-search');
    expect(ownCommand('vf-eval', ['x'], { cwd: tree.path, path: '' })).toBe(`node ${join(packageRoot(), 'bin/vf-eval.js')} x`);
  });
});

describe('shellCommand', () => {
  const readBack = (words: readonly string[]) =>
    execFileSync('bash', ['-c', `printf '%s\\0' ${shellCommand(words)}`], { encoding: 'utf8', env: { ...process.env, LC_ALL: 'C.UTF-8' } })
      .split('\0')
      .slice(0, -1);

  it('is read back by bash as the same words, with nothing that a terminal acts on', () => {
    const words = [
      "it's",
      'a b',
      '$(x)',
      '',
      'line\nbreak\x1b[31m',
      "\x1b0 \\n it's",
      'over\u202eride',
      '\x07 literal \\x9b \\u{e0041}',
      '\u009bc',
      '\u{e0041}1',
      '\t`"',
    ];
    expect(readBack(words)).toEqual(words);
    // oxlint-disable-next-line no-control-regex -- control characters are what this is about
    expect(shellCommand(words)).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
  });

  it('hides the secrets of URLs before it quotes, so that every quote stays', () => {
    const words = ['-b', 'http://h/v1?sig=0123456789', '-m', 'x$(touch PWNED)', "http://h/?a=1&key=it's secret", 'http://u:pw@h/ x'];
    expect(redactUrl(shellCommand(words))).toBe("-b 'http://h/v1?sig=***' -m 'x$(touch PWNED)' 'http://h/?a=1&key=*** secret' 'http://***@h/ x'");
  });
});
