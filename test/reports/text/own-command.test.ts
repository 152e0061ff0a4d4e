import { mkdirSync } from 'node:fs';
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

  it('names this installation anywhere else: npx would fetch whatever owns the command', () => {
    using tree = new Tree();
    tree.write('package.json', '{not json');
    expect(ownCommand('vf-eval', ['x'], { cwd: tree.path })).toBe(`npx --prefix ${packageRoot()} vf-eval x`);
  });

  it('names the project that installed the package, not the package in its node_modules', () => {
    using tree = new Tree();
    using elsewhere = new Tree();
    const project = tree.folder('project');
    tree.folder('project/node_modules/.bin');
    tree.write('project/node_modules/.bin/vf-eval', '');
    for (const place of ['node_modules/vf-search', 'node_modules/.pnpm/vf-search@0.1.0/node_modules/vf-search']) {
      const root = tree.folder(join('project', place));
      expect(ownCommand('vf-eval', ['x'], { cwd: elsewhere.path, root })).toBe(`npx --prefix ${project} vf-eval x`);
    }
  });
});
