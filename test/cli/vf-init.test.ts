import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
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

/** Loads an environment in a process of its own and plays its first row with the built-in baseline. */
function play(id: string, workingDirectory: string): Promise<Result> {
  const from = (path: string) => JSON.stringify(pathToFileURL(join(root, path)).href);
  const script = `
    import { loadEnvironment, MultiTurnEnv, Random } from ${from('src/index.ts')};
    import { playEpisode } from ${from('src/rollouts.ts')};
    import { environmentDefaults } from ${from('src/registry/load-environment.ts')};
    import { ExtractiveClient } from ${from('src/clients/extractive.ts')};
    const environment = await loadEnvironment(${JSON.stringify(id)}, { limit: 5 });
    const client = new ExtractiveClient();
    const { signal } = new AbortController();
    const lease = await client.lease(signal);
    const played = await playEpisode({
      environment, lease, signal, row: environment.eval.at(0), capabilities: client.capabilities, random: Random.fromSeed(0),
      sampling: { temperature: 0, topP: 1 }, maxTokens: null,
    });
    console.log(JSON.stringify({
      isOurs: environment instanceof MultiTurnEnv, rows: environment.eval.length, defaults: environmentDefaults(${JSON.stringify(id)}),
      stop: played.stop, error: played.error, text: played.segments.map((s) => s.text).join(''), searches: played.state.searches,
    }));`;
  return run(['--input-type=module', '-e', script], workingDirectory);
}

// Each test is a chain of processes, so they overlap.
describe.concurrent('vf-init', { timeout: 90_000 }, () => {
  it('writes an environment that loads and plays at once, and says how', async () => {
    const made = await vfInit(['capital-quiz']);
    expect(made).toMatchObject({ code: 0, stderr: expect.stringContaining('environments/capital-quiz; next:') as string });
    expect(made.stdout).toBe(
      `node ${root}/bin/vf-eval.js capital-quiz\nnpm install ${root} tsx && npx tsx --test environments/capital-quiz/environment.test.ts\n`,
    );
    const names = ['README.md', 'environment.test.ts', 'environment.ts', 'package.json', 'rows.jsonl'];
    expect(readdirSync(join(folder, 'environments/capital-quiz')).toSorted()).toEqual(names);
    expect(readdirSync(join(folder, 'environments'))).toEqual(['capital-quiz']);
    const played = await play('capital-quiz', folder);
    expect(played.stderr).toBe('');
    expect(JSON.parse(played.stdout)).toMatchObject({
      isOurs: true,
      rows: 4,
      defaults: { numExamples: 4, rolloutsPerExample: 1 },
      stop: 'completed',
      error: null,
      searches: 1,
      text: expect.stringMatching(
        /<search> In which year did people first walk on the Moon\? <\/search>.*<information>Doc 1.*<answer> \w+.* <\/answer>$/s,
      ) as string,
    });
  });

  it('writes a test that passes, and that fails when the environment is broken', async () => {
    const project = join(folder, 'project');
    mkdirSync(join(project, 'node_modules'), { recursive: true });
    symlinkSync(root, join(project, 'node_modules/vf-search'));
    writeFileSync(join(project, 'package.json'), '{}');
    const made = await vfInit(['with-test', '--dir', 'envs/'], project);
    expect(made.stdout).toBe(`node ${root}/bin/vf-eval.js with-test --env-dir-path envs\nnpx tsx --test envs/with-test/environment.test.ts\n`);
    const test = () => run(['--conditions=vf-search-source', '--test', 'envs/with-test/environment.test.ts'], project);
    expect(await test()).toMatchObject({ code: 0, stdout: expect.stringMatching(/pass 1\b/) as string });
    const path = join(project, 'envs/with-test/environment.ts');
    writeFileSync(path, readFileSync(path, 'utf8').replace('? 1 : 0', '? 0 : 1'));
    expect(await test()).toMatchObject({ code: 1 });
  });

  it('writes an environment with native tools whose test passes; a limit must be a number', async () => {
    const project = join(folder, 'tools');
    mkdirSync(join(project, 'node_modules'), { recursive: true });
    symlinkSync(root, join(project, 'node_modules/vf-search'));
    writeFileSync(join(project, 'package.json'), '{}');
    await vfInit(['with-tools', '--tools'], project);
    await vfInit(['with-tags'], project);
    const script = `
      for (const id of ['with-tools', 'with-tags']) {
        const { loadEnvironment } = await import(\`./environments/\${id}/environment.ts\`);
        await loadEnvironment({ limit: 'three' }).catch(({ message }) => console.log(message));
      }`;
    const { stdout } = await run(['--conditions=vf-search-source', '--input-type=module', '-e', script], project);
    expect(stdout.match(/limit must be an integer of at least 1, got "three"/g)).toHaveLength(2);
    const test = () => run(['--conditions=vf-search-source', '--test', 'environments/with-tools/environment.test.ts'], project);
    expect(await test()).toMatchObject({ code: 0, stdout: expect.stringMatching(/pass 1\b/) as string });
    const path = join(project, 'environments/with-tools/environment.ts');
    writeFileSync(path, readFileSync(path, 'utf8').replace("calls: 'native'", "calls: 'text'"));
    expect(await test()).toMatchObject({ code: 1 });
  });

  it(
    'holds rows out for evaluation where the environment is for training, and says how many are left to train on; its training commands work',
    { tags: 'long' },
    async () => {
      const project = join(folder, 'split');
      mkdirSync(join(project, 'node_modules'), { recursive: true });
      symlinkSync(root, join(project, 'node_modules/vf-search'));
      writeFileSync(join(project, 'package.json'), '{}');
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

  it('passes the strictest type check', async () => {
    const project = join(folder, 'typed');
    mkdirSync(join(project, 'node_modules/@types'), { recursive: true });
    symlinkSync(root, join(project, 'node_modules/vf-search'));
    symlinkSync(join(root, 'node_modules/@types/node'), join(project, 'node_modules/@types/node'));
    await vfInit(['my-typed-env-2'], project);
    await vfInit(['my-typed-tools', '--tools'], project);
    // Mastra is not installed here.
    for (const agent of ['ai-sdk', 'openai-agents', 'langgraph', 'command']) await vfInit([`my-typed-${agent}`, '--agent', agent], project);
    for (const name of ['ai', '@ai-sdk', '@openai', '@langchain', 'zod'])
      symlinkSync(join(root, 'node_modules', name), join(project, 'node_modules', name));
    const options = { ...JSON.parse(readFileSync(join(root, 'tsconfig.json'), 'utf8')), include: ['environments'] };
    writeFileSync(join(project, 'tsconfig.json'), JSON.stringify(options));
    expect(await run([join(root, 'node_modules/typescript/bin/tsc'), '-p', '.'], project)).toEqual({ code: 0, stdout: '', stderr: '' });
  });

  it.each(['ai-sdk', 'openai-agents', 'langgraph', 'mastra', 'command'] as const)(
    'writes an agent of the kind %s with a test that passes',
    async (agent) => {
      const project = join(folder, `agent-${agent}`);
      mkdirSync(join(project, 'node_modules'), { recursive: true });
      for (const name of ['ai', '@openai', '@langchain', 'zod']) symlinkSync(join(root, 'node_modules', name), join(project, 'node_modules', name));
      symlinkSync(root, join(project, 'node_modules/vf-search'));
      const made = await vfInit(['my-agent', '--agent', agent], project);
      expect(made).toMatchObject({ code: 0, stderr: expect.stringMatching(/wrote environment\.ts, agent\./) as string });
      // The packages of the others are there already.
      const install = agent === 'mastra' ? 'npm install --prefix environments/my-agent\n' : '';
      expect(made.stdout).toBe(`${install}node ${root}/bin/vf-eval.js my-agent\nnpx tsx --test environments/my-agent/environment.test.ts\n`);
      const path = join(project, 'environments/my-agent');
      const own = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { devDependencies: Record<string, string> };
      const { dependencies = {} } = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8')) as { dependencies?: Record<string, string> };
      // The versions that are tried here.
      expect(dependencies).toMatchObject(Object.fromEntries(Object.entries(own.devDependencies).filter(([name]) => name in dependencies)));
      if (agent === 'mastra') return;
      const args = ['--conditions=vf-search-source', '--test', 'environments/my-agent/environment.test.ts'];
      expect(await run(args, project)).toMatchObject({ code: 0, stdout: expect.stringMatching(/pass 1\b/) as string });
    },
  );

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
