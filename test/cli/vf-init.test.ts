import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AGENT_KINDS } from '../../src/templates/agent-kinds.ts';
import { environmentFiles } from '../../src/templates/environment-template.ts';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';
import { runInProcess } from './in-process.ts';

const root = join(import.meta.dirname, '../..');
let folder: string;
beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'vf-init-')));
});
afterAll(() => rmSync(folder, { recursive: true }));

interface Result {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function run(args: readonly string[], workingDirectory = folder): Promise<Result> {
  return new Promise((resolve) => {
    execFile(process.execPath, args, { cwd: workingDirectory, env: BARE_ENVIRONMENT }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

const vfInit = (args: readonly string[], cwd = folder) => runInProcess('vf-init', args, { cwd, env: {} });

/** A folder in which `vf-search` and other packages can be imported. */
function projectWith(name: string, packages: readonly string[] = []): string {
  const project = join(folder, name);
  mkdirSync(join(project, 'node_modules/@types'), { recursive: true });
  symlinkSync(root, join(project, 'node_modules/vf-search'));
  for (const each of packages) symlinkSync(join(root, 'node_modules', each), join(project, 'node_modules', each));
  writeFileSync(join(project, 'package.json'), '{}');
  return project;
}

const PACKAGES = ['@types/node', 'ai', '@ai-sdk', '@openai', '@langchain', 'zod'];
/** Mastra is not installed here. */
const FRAMEWORKS = ['ai-sdk', 'openai-agents', 'langgraph', 'command'] as const;

describe('what vf-init writes', () => {
  let project: string;
  let tests: Result;
  const environmentPath = (id: string, name = '') => join(project, 'environments', id, name);
  beforeAll(async () => {
    project = projectWith('project', PACKAGES);
    await vfInit(['capital-quiz'], project);
    await vfInit(['with-tools', '--tools'], project);
    for (const agent of FRAMEWORKS) await vfInit([`agent-${agent}`, '--agent', agent], project);
    for (const [id, right, wrong] of [
      ['capital-quiz', '? 1 : 0', '? 0 : 1'],
      ['with-tools', "calls: 'native'", "calls: 'text'"],
      ['agent-ai-sdk', '? 1 : 0', '? 0 : 1'],
    ] as const) {
      cpSync(environmentPath(id), environmentPath(`${id}-broken`), { recursive: true });
      for (const name of ['environment.ts', 'environment.test.ts']) {
        const path = environmentPath(`${id}-broken`, name);
        writeFileSync(path, readFileSync(path, 'utf8').replace(right, wrong).replaceAll(`test('${id} `, `test('${id}-broken `));
      }
    }
    // One process for all: what they import is loaded once.
    const flags = ['--conditions=vf-search-source', '--test', '--test-isolation=none', '--test-reporter=tap'];
    tests = await run([...flags, join(import.meta.dirname, 'written-environments.ts'), 'environments/*/environment.test.ts'], project);
  });

  it.each(['capital-quiz', 'with-tools', ...FRAMEWORKS.map((agent) => `agent-${agent}`)])('has a test that passes: %s', (id) => {
    expect(tests.stdout).toMatch(new RegExp(`^ok \\d+ - ${id} `, 'm'));
  });

  it.each(['capital-quiz', 'with-tools', 'agent-ai-sdk'])('has a test that fails where the environment is broken: %s', (id) => {
    expect(tests.stdout).toMatch(new RegExp(`^not ok \\d+ - ${id}-broken `, 'm'));
  });

  /** What `written-environments.ts` said of it. */
  const said = (name: string): unknown => {
    const line = tests.stdout.split('\n').find((each) => each.startsWith(`${name} `));
    if (line === undefined) throw new Error(tests.stdout + tests.stderr);
    return JSON.parse(line.slice(name.length));
  };

  it('loads and plays at once', () => {
    expect(said('capital-quiz')).toMatchObject({
      isOurs: true,
      rows: 4,
      defaults: { numExamples: 4, rolloutsPerExample: 1 },
      stop: 'completed',
      error: null,
      state: { searches: 1 },
      text: expect.stringMatching(
        /<search> In which year did people first walk on the Moon\? <\/search>.*<information>Doc 1.*<answer> \w+.* <\/answer>$/s,
      ) as string,
    });
  });

  it.each(FRAMEWORKS)('is an agent with %s that searches, answers and restates what was said, in one branch', (agent) => {
    const rollouts = said(`agent-${agent}`) as { readonly isRight: boolean }[];
    expect(rollouts).toHaveLength(2);
    for (const rollout of rollouts) expect(rollout).toMatchObject({ error: null, turns: 2, stop: 'completed', forks: [null], tools: ['find_note'] });
    expect(rollouts.some(({ isRight }) => isRight)).toBe(true);
  });

  it.each(['ai-sdk', 'openai-agents', 'langgraph'])('is an agent with %s in which calls that cannot be made are a wrong answer', (agent) => {
    expect(said(`misused agent-${agent}`)).toEqual([0, 1].map(() => ({ error: null, isRight: false })));
  });

  it.each(['capital-quiz', 'with-tools'])('takes a number as its limit: %s', (id) => {
    expect(said(`limit of ${id}`)).toMatch(/limit must be an integer of at least 1, got "three"/);
  });

  it('passes the strictest type check, with the types of the package', async () => {
    const { customConditions: _, ...compilerOptions } = (JSON.parse(readFileSync(join(root, 'tsconfig.json'), 'utf8')) as Typed).compilerOptions;
    const files = ['capital-quiz', 'with-tools', ...FRAMEWORKS.map((agent) => `agent-${agent}`)].map((id) => `environments/${id}`);
    writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: files }));
    expect(await run([join(root, 'node_modules/typescript/bin/tsc'), '-p', '.'], project)).toEqual({ code: 0, stdout: '', stderr: '' });
  });
});

interface Typed {
  readonly compilerOptions: Readonly<Record<string, unknown>>;
}

describe('vf-init', () => {
  it('says what it wrote and how to play it', async () => {
    const made = await vfInit(['capital-quiz']);
    expect(made).toMatchObject({ code: 0, stderr: expect.stringContaining('environments/capital-quiz; next:') as string });
    expect(made.stdout).toBe(
      `node ${root}/bin/vf-eval.js capital-quiz\nnpm install ${root} tsx && npx tsx --test environments/capital-quiz/environment.test.ts\n`,
    );
    const names = ['README.md', 'environment.test.ts', 'environment.ts', 'package.json', 'rows.jsonl'];
    expect(readdirSync(join(folder, 'environments/capital-quiz')).toSorted()).toEqual(names);
    expect(readdirSync(join(folder, 'environments'))).toEqual(['capital-quiz']);
    const inProject = await vfInit(['with-test', '--dir', 'envs/'], projectWith('elsewhere'));
    expect(inProject.stdout).toBe(`node ${root}/bin/vf-eval.js with-test --env-dir-path envs\nnpx tsx --test envs/with-test/environment.test.ts\n`);
  });

  it(
    'holds rows out for evaluation where the environment is for training, and says how many are left to train on; its training commands work',
    { tags: 'long' },
    async () => {
      const project = projectWith('split');
      await vfInit(['with-split', '--tools'], project);
      const script = `
      import { loadEnvironment } from './environments/with-split/environment.ts';
      const { train, eval: held } = await loadEnvironment();
      console.log(JSON.stringify([train, held].map((rows) => [...rows].map(({ exampleId }) => exampleId))));`;
      const { stdout } = await run(['--conditions=vf-search-source', '--input-type=module', '-e', script], project);
      expect(JSON.parse(stdout)).toEqual([Array.from({ length: 12 }, (_, i) => String(i + 1)), ['13', '14', '15', '16']]);
      const read = (name: string) => readFileSync(join(project, 'environments/with-split', name), 'utf8');
      expect(read('README.md')).toContain('npx vf-train with-split --preset laptop-copy ');
      expect(JSON.parse(read('package.json'))).toMatchObject({ verifiers: { eval: { numExamples: 4 } } });
      const training = [...read('README.md').matchAll(/^ {4}npx vf-train (.*)$/gm)].map(([, words]) => words!.replace(/ +#.*/, '').split(' '));
      expect(training).toHaveLength(2);
      const [here, served] = await Promise.all(
        training.map((words) => run(['--conditions=vf-search-source', join(root, 'src/cli/vf-train.ts'), ...words, '--dry-run'], project)),
      );
      expect(here).toMatchObject({ code: 0, stderr: '' });
      // The flags are right; what is missing is the model that MODEL stands for, and its server.
      expect(served).toMatchObject({ code: 2, stderr: '', stdout: expect.stringMatching(/^missing {2}server .*ECONNREFUSED/m) as string });
    },
  );

  it.each(AGENT_KINDS)('writes an agent of the kind %s, and says which packages it lacks', async (agent) => {
    const project = projectWith(`with-${agent}`, PACKAGES.slice(1));
    const made = await vfInit(['my-agent', '--agent', agent], project);
    expect(made).toMatchObject({ code: 0, stderr: expect.stringMatching(/wrote environment\.ts, agent\./) as string });
    // The packages of the others are there already.
    const install = agent === 'mastra' ? 'npm install --prefix environments/my-agent\n' : '';
    expect(made.stdout).toBe(`${install}node ${root}/bin/vf-eval.js my-agent\nnpx tsx --test environments/my-agent/environment.test.ts\n`);
    const own = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { devDependencies: Record<string, string> };
    const manifest = readFileSync(join(project, 'environments/my-agent/package.json'), 'utf8');
    const { dependencies = {} } = JSON.parse(manifest) as { dependencies?: Record<string, string> };
    // The versions that are tried here.
    expect(dependencies).toMatchObject(Object.fromEntries(Object.entries(own.devDependencies).filter(([name]) => name in dependencies)));
  });

  it('writes no package.json inside the repository, where it would hide the name vf-search', () => {
    const options = { id: 'x', directory: 'environments', kind: 'tags' } as const;
    expect(Object.keys(environmentFiles({ ...options, withManifest: true }))).toContain('package.json');
    const names = Object.keys(environmentFiles({ ...options, withManifest: false }));
    expect(names.toSorted()).toEqual(['README.md', 'environment.test.ts', 'environment.ts', 'rows.jsonl']);
  });

  it('refuses to overwrite, and names that would not work (2), and leaves nothing behind', async () => {
    mkdirSync(join(folder, 'refused/my_env'), { recursive: true });
    writeFileSync(join(folder, 'a-file'), '');
    for (const [args, problem] of [
      [['my-env', '--dir', 'refused'], 'refused/my_env already exists'],
      [['search-r1', '--dir', 'refused'], 'vf-search itself has an environment search-r1'],
      [['../up', '--dir', 'refused'], 'must be lower-case words'],
      [['Camel', '--dir', 'refused'], 'must be lower-case words'],
      [['ok', '--dir', 'a-file'], 'a-file is a file'],
      [['ok', '--dir', ''], '--dir needs a value: folder of the environments'],
      [['ok', 'more'], 'vf-init takes one argument, <id>, got 2: ok more'],
      [['ok', '--agent', 'crew'], '--agent must be one of ai-sdk, openai-agents, langgraph, mastra or command, got "crew"'],
      [['ok', '--agent', 'ai-sdk', '--tools'], '--tools and --agent exclude each other'],
      [['ok', '--force'], 'Unknown flag --force; vf-init --help lists them all'],
    ] as const) {
      const result = await vfInit(args);
      expect(result).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(/^vf-init: [^\n]+\n$/) as string });
      expect(result.stderr).toContain(problem);
    }
    expect(readdirSync(join(folder, 'refused'))).toEqual(['my_env']);
    expect(existsSync(join(folder, 'up'))).toBe(false);
  });

  it('teaches with --help, and without arguments on stderr (2)', async () => {
    const help = await vfInit(['--help']);
    expect(help).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('vf-init capital-quiz --dir envs') as string });
    expect(await vfInit([])).toEqual({ code: 2, stdout: '', stderr: help.stdout });
  });
});
