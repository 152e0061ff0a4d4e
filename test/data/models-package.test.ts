import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { entryFolder, modelsPackage } from '../../src/data/models-package.ts';
import { CommandHost } from '../cli/command-host.ts';

const ROOT = join(import.meta.dirname, '../..');
/** A process that imports it finds no package vf-search-models, as where nobody installed it. */
const HIDE = `
import Module from 'node:module';
const resolve = Module._resolveFilename;
Module._resolveFilename = (request, ...rest) => {
  if (!request.startsWith('vf-search-models')) return resolve(request, ...rest);
  throw Object.assign(new Error('Cannot find module ' + request), { code: 'MODULE_NOT_FOUND' });
};
`;
const INSTALL = 'is in the package vf-search-models, which is not installed. Install it from a clone: npm install CLONE/packages/vf-search-models';

describe('modelsPackage', () => {
  it('is the workspace in a clone', () => {
    expect(modelsPackage()).toBe(join(ROOT, 'packages/vf-search-models'));
    expect(entryFolder({}, 'models')).toBe(join(ROOT, 'models'));
    expect(entryFolder({ package: 'vf-search-models' }, 'datasets')).toBe(join(ROOT, 'packages/vf-search-models/datasets'));
  });
});

describe('a model or data set of a package that is not installed', () => {
  const host = new CommandHost(['--import', `data:text/javascript,${encodeURIComponent(HIDE)}`, '--conditions=vf-search-source']);
  afterAll(() => host[Symbol.asyncDispose]());

  it.each([
    ['vf-train', ['search-o1', '--preset', 'laptop', '--dry-run'], 'The model nano-o1'],
    ['vf-eval', ['search-r1', '-p', 'embedded', '-m', 'nano-copy', '-n', '1'], 'The model nano-copy'],
    ['vf-eval', ['visual-rag', '-n', '1', '-p', 'baseline'], 'The data set deck-mini'],
    ['vf-rounds', ['bucket', '--trace', 'trace.jsonl', '--rows', 'page-world', '-o', 'r1'], 'The data set page-world'],
    ['vf-doctor', ['search-o1', '--preset', 'laptop'], 'The model nano-o1'],
  ])('%s %j is refused with the command that installs it', async (name, args, what) => {
    const { code, stderr } = await host.run(name, args, { cwd: ROOT, env: {} });
    expect(stderr).toContain(`${what} ${INSTALL}`);
    expect(code).toBe(2);
  });
});
