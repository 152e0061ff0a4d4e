import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../../../src/data/package-root.ts';
import { ownCommand } from '../../../src/reports/text/own-command.ts';
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
