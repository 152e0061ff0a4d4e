import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { environmentDefaults, loadEnvironment } from '../../src/registry/load-environment.ts';

const root = join(import.meta.dirname, '../..');
let folder: string;

/** Written the way users write them: no build step, an enum, a relative import with the extension that tsc wants. */
const ENVIRONMENT = `
import { ConfigError, Dataset, reward, Rubric, SingleTurnEnv } from 'vf-search';
import { ScriptedClient } from 'vf-search/clients/scripted';
import { greeting } from './greeting.js';
enum Mood { Good = 'good' }
export async function loadEnvironment(args: Record<string, unknown> = {}, context: { env: Record<string, string | undefined> }): Promise<SingleTurnEnv> {
  if (args['bad']) throw new ConfigError('Expected no bad argument');
  if (new ScriptedClient({ turns: [] }).name !== 'scripted') throw new Error('another client');
  const rows = [{ exampleId: 1, prompt: [{ role: 'user' as const, content: greeting }], info: { mood: Mood.Good, args, token: context.env['TOKEN'] } }];
  const rubric = new Rubric({ funcs: [reward(() => 1, { name: 'always' })] });
  return new SingleTurnEnv({ id: 'NAME', eval: new Dataset('rows', rows), rubric });
}
`;

function write(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

function writeEnvironment(path: string, name: string, manifest: object | null = { type: 'module' }): void {
  write(join(path, 'environment.ts'), ENVIRONMENT.replace('NAME', name));
  write(join(path, 'greeting.ts'), `export const greeting: string = 'hello from ${name}';\n`);
  if (manifest !== null) write(join(path, 'package.json'), JSON.stringify(manifest));
}

interface Loaded {
  readonly id: string;
  readonly isOurs: boolean;
  readonly info: Record<string, unknown>;
  readonly prompt: string;
  readonly error?: string;
  readonly isConfigError?: boolean;
}

/** Loads environments in a process of its own, as the commands do; vitest replaces Node's module loading. */
async function loadInChild(calls: readonly (readonly [id: string, args?: object, options?: object])[], workingDirectory = folder): Promise<Loaded[]> {
  const script = `
    import { ConfigError, SingleTurnEnv } from ${JSON.stringify(pathToFileURL(join(root, 'src/index.ts')).href)};
    import { loadEnvironment } from ${JSON.stringify(pathToFileURL(join(root, 'src/registry/load-environment.ts')).href)};
    const results = [];
    for (const [id, args, options] of ${JSON.stringify(calls)}) {
      try {
        const e = await loadEnvironment(id, args ?? {}, { env: { TOKEN: 'from the caller' }, ...options });
        results.push({ id: e.id, isOurs: e instanceof SingleTurnEnv, info: e.eval.at(0).info, prompt: e.eval.at(0).prompt[0].content });
      } catch (error) {
        results.push({ error: error.message, isConfigError: error instanceof ConfigError });
      }
    }
    process.stdout.write(JSON.stringify(results));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], { cwd: workingDirectory });
  return JSON.parse(stdout) as Loaded[];
}

beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'vf-registry-')));
  writeEnvironment('environments/local-one', 'local-one', {
    type: 'module',
    verifiers: { id: 'local-one', entry: './environment.ts', eval: { numExamples: 7, rolloutsPerExample: 2 } },
  });
  writeEnvironment('environments/untyped', 'untyped', null);
  writeEnvironment('elsewhere/by-path', 'by-path');
  write(
    'environments/plain/environment.mjs',
    "import { Dataset, Rubric, SingleTurnEnv } from 'vf-search';\nimport { emCheck } from 'vf-search/environments/search-r1';\n" +
      "const row = { exampleId: 1, prompt: [{ role: 'user', content: `${emCheck('The Answer', ['answer'])}` }], info: {} };\n" +
      "export default () => new SingleTurnEnv({ id: 'plain', eval: new Dataset('rows', [row]), rubric: new Rubric({ funcs: [] }) });\n",
  );
  writeEnvironment('node_modules/installed-one', 'installed-one');
  writeEnvironment('node_modules/vf-prefixed', 'prefixed', {});
  writeEnvironment('node_modules/@acme/scoped_one', 'scoped-one');
  write('node_modules/not-an-environment/package.json', '{"main":"index.js"}');
  write('node_modules/not-an-environment/index.js', 'throw new Error("imported");');
  write('node_modules/@one/twice/environment.js', '');
  write('node_modules/@two/twice/environment.js', '');
  write('environments/search-r1/outputs/evals/results.jsonl', '');
  write('environments/throws/environment.js', 'throw new TypeError("at import")');
  write('environments/broken/environment.ts', 'export const x: = 1;');
  write('elsewhere/awaits/environment.ts', 'const rows: number = await Promise.resolve(1);\nexport default () => rows;');
  write('environments/nothing/environment.mjs', 'export const somethingElse = 1;');
  write('environments/valued/environment.mjs', 'export const loadEnvironment = 3;');
  write('environments/number/environment.mjs', 'export default () => 5;');
  write('environments/shapeless/environment.mjs', 'export default () => ({ id: "x", start() {}, close() {}, train: [], eval: [] });');
  write(
    'environments/nameless/environment.mjs',
    'export default () => ({ id: "x", start() {}, close() {}, train: [], eval: [], rubric: { score() {}, scoreGroup() {} } });',
  );
  write('environments/fails/environment.mjs', 'export const load_environment = async () => { throw new RangeError("when called"); };');
  write('environments/escapes/package.json', '{"verifiers":{"entry":"../local-one/environment.ts"}}');
  write('environments/misdescribed/package.json', '{"verifiers":{"evaluation":{}}}');
  write('environments/misdescribed/environment.mjs', '');
  write('environments/empty/README.md', '');
  symlinkSync('nowhere', join(folder, 'environments/dangling'));
  write('odd/environments', 'a file where a folder is expected');
});
afterAll(() => rmSync(folder, { recursive: true }));

describe('loadEnvironment', () => {
  it('runs TypeScript without a build step, from node_modules and without "type": "module" too, on one copy of our classes', async () => {
    const loaded = await loadInChild([
      ['local-one', { topk: 3 }],
      ['untyped'],
      ['installed-one'],
      ['prefixed'],
      ['@acme/scoped-one'],
      ['scoped_one'],
      ['./elsewhere/by-path'],
      ['elsewhere/by-path/environment.ts'],
    ]);
    expect(loaded.map((l) => [l.error, l.id, l.isOurs, l.prompt])).toEqual(
      ['local-one', 'untyped', 'installed-one', 'prefixed', 'scoped-one', 'scoped-one', 'by-path', 'by-path'].map((name) => [
        undefined,
        name,
        true,
        `hello from ${name}`,
      ]),
    );
    expect(loaded[0]!.info).toEqual({ mood: 'good', args: { topk: 3 }, token: 'from the caller' });
  });

  it('gives plain JavaScript the same copy, and the parts of search-r1 by name', async () => {
    const [plain] = await loadInChild([['plain']]);
    expect(plain).toMatchObject({ id: 'plain', isOurs: true, prompt: expect.stringMatching(/^(1|true)$/) });
  });

  it('treats - and _ as equal, and searches other folders by option and node_modules of the folders above', async () => {
    const deep = join(folder, 'deep/er');
    mkdirSync(deep, { recursive: true });
    const loaded = await loadInChild([['local_one', {}, { environmentsDir: join(folder, 'environments') }], ['installed_one']], deep);
    expect(loaded.map((l) => l.id ?? l.error)).toEqual(['local-one', 'installed-one']);
  });

  it('passes an error of ours on and keeps what any other one says', async () => {
    const calls = [['local-one', { bad: true }], ['throws'], ['broken'], ['fails'], ['./elsewhere/awaits']] as const;
    const [ours, thrown, broken, called, awaits] = await loadInChild(calls);
    expect(ours).toEqual({ error: 'Expected no bad argument', isConfigError: true });
    expect(thrown!.error).toMatch(/^The environment throws \(.*environment\.js\) could not be imported: TypeError: at import$/);
    expect(broken!.error).toMatch(/^The environment broken .* could not be imported: /);
    expect(called!.error).toMatch(/^The environment fails .* failed to load: RangeError: when called$/);
    expect(awaits!.error).toMatch(
      /has an await outside of functions\. Add a package\.json with "type": "module" next to it, or name the file \.mts\.$/,
    );
    expect([thrown, broken, called, awaits].map((l) => l!.isConfigError)).toEqual([true, true, true, true]);
  });

  it('says what an environment is when a module gives something else', async () => {
    const [nothing, valued, number, shapeless, nameless] = await loadInChild([['nothing'], ['valued'], ['number'], ['shapeless'], ['nameless']]);
    expect(nothing!.error).toMatch(/does not export a function loadEnvironment\(args\), .*; it exports somethingElse$/);
    expect(valued!.error).toMatch(/environment\.mjs exports loadEnvironment, but it is a number, not a function$/);
    expect(number!.error).toMatch(/does not load an environment .*: it gave number$/);
    expect(shapeless!.error).toMatch(/its rubric is not a Rubric$/);
    expect(nameless!.error).toMatch(/its rubric has no list of names; extend Rubric$/);
  });

  it('lists what exists when an id is unknown, and imports no package that is not an environment', async () => {
    const options = { workingDirectory: folder };
    const unknown = loadEnvironment('not-an-environment', {}, options);
    await expect(unknown).rejects.toBeInstanceOf(ConfigError);
    await expect(unknown).rejects.toThrow(
      /environment "not-an-environment" is unknown; looked for .*known are .*local-one.*search-r1.*`vf-init not-an-environment`/,
    );
    await expect(loadEnvironment('package.json', {}, options)).rejects.toThrow(/known are (?!.*vf-init)/);
    mkdirSync(join(folder, 'loose'));
    await expect(loadEnvironment('loose', {}, options)).rejects.toThrow(/in node_modules\. To load \.\/loose, which exists, write \.\/loose; known/);
    execFileSync('mkfifo', [join(folder, 'some-pipe')]);
    await expect(loadEnvironment('some-pipe', {}, options)).rejects.toThrow(
      /\. \.\/some-pipe exists, but it is a pipe, which cannot be loaded; known/,
    );
    await expect(loadEnvironment('twice', {}, options)).rejects.toThrow(/called twice: .*@one\/twice and .*@two\/twice\. Name it with its scope/);
    await expect(loadEnvironment('empty', {}, options)).rejects.toThrow(/empty contains no environment: no environment\.ts/);
  });

  it('takes a relative path to a folder that exists', async () => {
    const { id } = await loadEnvironment('environments/local-one', {}, { workingDirectory: folder });
    expect(id).toBe((await loadEnvironment('./environments/local-one', {}, { workingDirectory: folder })).id);
    await expect(loadEnvironment('environments/nowhere', {}, { workingDirectory: folder })).rejects.toThrow(/nor a path that exists/);
  });

  it('says of a path to a module that does not exist where it looked', async () => {
    await expect(loadEnvironment('examples/judged-answers.ts', {}, { workingDirectory: folder })).rejects.toThrow(
      `${join(folder, 'examples/judged-answers.ts')} does not exist`,
    );
    await expect(loadEnvironment('@scope/no-such.js', {}, { workingDirectory: folder })).rejects.toThrow(
      /^The environment "@scope\/no-such.js" is unknown; /,
    );
  });

  it('lists what exists next to broken links, and when environments is a file', async () => {
    for (const workingDirectory of [folder, join(folder, 'odd')])
      await expect(loadEnvironment('no-such', {}, { workingDirectory })).rejects.toThrow(/^The environment "no-such" is unknown; .*search-r1/);
  });

  it.each(['file://%', 'file://elsewhere/x', 'file:///%00', 'file:///no/such/environment.ts', './a\0b'])('refuses %j in one line', async (id) => {
    await expect(loadEnvironment(id)).rejects.toBeInstanceOf(ConfigError);
  });

  it.each(['../elsewhere', 'a/../../b', 'a/b', '', ' ', 'a\0b', '@acme', '@acme/../x', 'https://x/y'])(
    'never leaves its folders for the id %j',
    async (id) => {
      await expect(loadEnvironment(id, {}, { workingDirectory: join(folder, 'environments') })).rejects.toBeInstanceOf(ConfigError);
    },
  );

  it('keeps an entry inside its folder and refuses a description it does not know', async () => {
    const options = { workingDirectory: folder };
    await expect(loadEnvironment('escapes', {}, options)).rejects.toThrow(/The entry of .*escapes must be inside that folder, got \.\.\/local-one/);
    await expect(loadEnvironment('misdescribed', {}, options)).rejects.toThrow(/unknown key verifiers\.evaluation; known keys: id, entry/);
    await expect(loadEnvironment('local-one', [] as unknown as Record<string, unknown>, options)).rejects.toThrow('must be an object, got []');
    await expect(loadEnvironment('local-one', {}, { ...options, signal: AbortSignal.abort() })).rejects.toMatchObject({ name: 'CancelledError' });
  });

  it('does not take a folder of outputs for the environment of that name', () => {
    expect(() => environmentDefaults('search-r1', { workingDirectory: folder })).not.toThrow();
  });
});

describe('environmentDefaults', () => {
  it('reads what package.json says about evaluations', () => {
    expect(environmentDefaults('local-one', { workingDirectory: folder })).toEqual({ numExamples: 7, rolloutsPerExample: 2 });
    expect(environmentDefaults('untyped', { workingDirectory: folder })).toEqual({});
  });
});
