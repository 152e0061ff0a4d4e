/** vf-eval with what users, broken files and hostile servers give it. Each case is the real command in a process of its own, but for what its parser alone refuses. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { vfEval } from '../../src/cli/commands/vf-eval.ts';
import { runWords } from '../../src/cli/options/run-defined.ts';
import { ConfigError } from '../../src/core/errors.ts';
import { quietContext } from '../cli/options/quiet-context.ts';
import { EvalFolder } from '../cli/vf-eval-process.ts';
import { type Loopback, loopback, readText, sendJson } from '../transport/loopback.ts';

const KEY = 'sk-the-key-of-this-test';
const CHAT = ['-a', '{"format": "chat"}', '-m', 'M', '--api-client-type', 'chat', '-k', 'TEST_KEY'];
const lines = (text: string) => text.trimEnd().split('\n');

interface ChatServer extends Loopback {
  readonly bodies: Record<string, unknown>[];
  /** Null answers; a number refuses. */
  status: number | null;
}

async function chatServer(status: number | null = null): Promise<ChatServer> {
  const bodies: Record<string, unknown>[] = [];
  const server: Loopback = await loopback(async (request, response) => {
    const text = await readText(request);
    if (request.method === 'POST') bodies.push(JSON.parse(text) as Record<string, unknown>);
    if (opened.status !== null) return sendJson(response, opened.status, { error: { message: `No entry with ${KEY}` } });
    sendJson(response, 200, { choices: [{ message: { content: '<answer> Paris </answer>' }, finish_reason: 'stop' }] });
  });
  const opened: ChatServer = Object.assign(server, { bodies, status });
  return opened;
}

/** The directory of the only run in the folder. */
function runOf(folder: EvalFolder): string {
  const [name] = [...folder.files().keys()].filter((file) => file.endsWith('metadata.json'));
  return join(folder.path, name!, '..');
}

describe('a run that cannot succeed', () => {
  it.each([401, 403, 404])('stops with the first %i, says why in one line, and continues with -R', async (status) => {
    await using server = await chatServer(status);
    using folder = new EvalFolder();
    const args = ['capitals', '-n', '-1', '-c', '2', '-b', `${server.url}/v1`, ...CHAT];
    const { code, stderr, stdout } = await folder.run(args, { TEST_KEY: KEY });
    expect([code, stdout]).toEqual([1, '']);
    expect(server.bodies.length).toBeLessThanOrEqual(3);
    expect(lines(stderr).filter((line) => line.startsWith('vf-eval: '))).toEqual([expect.stringMatching(/ of 40 rollouts\. .*-R .*outputs/)]);
    expect(stderr).not.toContain(KEY);
    server.status = null;
    const again = await folder.run([...args, '-R', runOf(folder), '--json'], { TEST_KEY: KEY });
    expect(again.code).toBe(0);
    expect(JSON.parse(again.stdout)).toMatchObject({ rollouts: { recorded: 40, finished: 40, errored: 0 } });
  });
});

describe('what the command line says', () => {
  it.each<[string, string[], RegExp]>([
    ['JSON that is 50,000 levels deep', ['-a', `{"a": ${'['.repeat(50_000)}${']'.repeat(50_000)}}`], /^-a may be nested at most 64/],
    ['half a secret', ['-a', '{"api_key": "hunter2'], /^-a must be a JSON object(?!.*hunter2)/],
    ['half a secret after a key', ['-a', '{"a": 1}', '-a', '{"api_key": "hunter2'], /^-a must be a JSON object(?!.*hunter2)/],
    ['half a secret under no name', ['-S', '{"x": 1} hunter2'], /^-S must be .*which is not valid JSON/],
  ])('refuses %s in one line', async (_, args, message) => {
    const refused: unknown = await runWords(vfEval, ['capitals', '-n', '1', ...args], quietContext()).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ConfigError);
    expect((refused as Error).message).toMatch(message);
    expect((refused as Error).message).not.toContain('\n');
  });

  it('refuses an endpoints file that is not there in one line', async () => {
    using folder = new EvalFolder();
    const { code, stderr, stdout } = await folder.run(['capitals', '-n', '1', '-e', 'nope.toml', '-p', 'baseline']);
    expect([code, stdout]).toEqual([2, '']);
    expect(lines(stderr)).toEqual(['vf-eval: Could not read the TOML file nope.toml: there is no such file']);
  });

  it('refuses a sweep that is too long to wait for, naming how many runs it has', async () => {
    using folder = new EvalFolder();
    const names = ['n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'n7', 'n8'];
    const values = JSON.stringify(Array.from({ length: 30 }, (_, i) => i));
    folder.file('runs.toml', `[[ablation]]\nenv_id = "capitals"\n[ablation.sweep.args]\n${names.map((name) => `${name} = ${values}`).join('\n')}\n`);
    const { code, stderr } = await folder.run(['runs.toml']);
    expect([code, lines(stderr).length]).toEqual([2, 1]);
    expect(stderr).toMatch(/has 656,100,000,000 runs: env_args\.n1 \(30\) ×/);
  });

  it('names state columns that do not exist, as soon as the state is known', async () => {
    using folder = new EvalFolder();
    const { code, stderr } = await folder.run(['capitals', '-n', '2', '-C', 'turns,nope', '-A']);
    expect(code).toBe(0);
    expect(stderr.match(/state has no nope: .* The state holds turns/g)).toHaveLength(1);
  });

  it('sends max_completion_tokens as it is called, and shows no secret among the sampling arguments', async () => {
    await using server = await chatServer();
    using folder = new EvalFolder();
    const sampling = '{"max_completion_tokens": 500, "extra_body": {"api_key": "X9"}}';
    const { code, stdout, stderr } = await folder.run(['capitals', '-n', '1', '-b', server.url, '-S', sampling, ...CHAT], { TEST_KEY: KEY });
    expect(code).toBe(0);
    expect(server.bodies[0]).toMatchObject({ max_completion_tokens: 500, api_key: 'X9' });
    expect(server.bodies[0]).not.toHaveProperty('max_tokens');
    expect(stdout).toContain('max_completion_tokens 500');
    for (const text of [stdout, stderr, ...folder.files().values()]) expect(text).not.toContain('X9');
  });
});

describe('-v', () => {
  it('shows the stack of a failed rollout, and no file holds it', async () => {
    await using server = await chatServer(500);
    using folder = new EvalFolder();
    const args = ['capitals', '-n', '1', '--max-retries', '0', '-b', server.url, ...CHAT];
    const quiet = await folder.run(args, { TEST_KEY: KEY });
    expect(quiet.stderr).not.toMatch(/^ +at /m);
    const { code, stderr } = await folder.run([...args, '-v'], { TEST_KEY: KEY });
    expect(code).toBe(1);
    expect(stderr).toMatch(/rollout of row c0 failed.*\n.*PolicyError: .*\n +at /);
    for (const text of [stderr, ...folder.files().values()]) expect(text).not.toContain(KEY);
    for (const text of folder.files().values()) expect(text).not.toMatch(/\\n +at /);
  });

  it('shows the stack and the causes of what ended the command', async () => {
    using folder = new EvalFolder();
    const broken = folder.file(
      'environments/broken/environment.mjs',
      "export function loadEnvironment() { throw new Error('no luck', { cause: new Error('why') }); }",
    );
    const { code, stderr } = await folder.run(['broken', '-v']);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^vf-eval: The environment broken .*no luck/);
    expect(stderr).toMatch(/caused by Error: no luck\n +at loadEnvironment/);
    expect(stderr).toMatch(/caused by Error: why\n +at loadEnvironment/);
    expect((await folder.run([broken])).stderr).not.toMatch(/^ +at /m);
  });
});

describe('a TOML file with a fault next to a secret', () => {
  it('is refused without that line, with -v too', async () => {
    using folder = new EvalFolder();
    folder.file('runs.toml', '[[eval]]\nenv_id = "capitals"\nenv_args = { service_token = "hunter2" "x" }\n');
    const { code, stderr } = await folder.run(['runs.toml', '-v']);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^vf-eval: runs\.toml is not valid TOML: line 3/);
    expect(stderr).toMatch(/^ +at /m);
    expect(stderr).not.toContain('hunter2');
  });
});

describe('a run directory that was edited', () => {
  async function played(folder: EvalFolder): Promise<string> {
    expect((await folder.run(['capitals', '-n', '2'])).code).toBe(0);
    return runOf(folder);
  }

  it('with a rollout too many is not resumed', async () => {
    using folder = new EvalFolder();
    const directory = await played(folder);
    const [results, tokens] = ['results.jsonl', 'tokens.jsonl'].map((name) => join(directory, name));
    const extra = (path: string) =>
      writeFileSync(
        path,
        readFileSync(path, 'utf8').replace(
          /^(.*)"c0\/0"(.*)\n/,
          (line, a: string, b: string) => `${line}${a}"c0/7"${b.replace('"rollout_index":0', '"rollout_index":7')}\n`,
        ),
      );
    extra(results!);
    extra(tokens!);
    const { code, stderr } = await folder.run(['capitals', '-n', '3', '-R', directory]);
    expect([code, lines(stderr).length]).toEqual([2, 1]);
    expect(stderr).toMatch(/holds rollout "c0\/7" with rollout_index 7, but each example has only rollouts 0 to 0/);
  });

  it('of another schema version is refused by its version', async () => {
    using folder = new EvalFolder();
    const directory = await played(folder);
    const path = join(directory, 'metadata.json');
    writeFileSync(path, readFileSync(path, 'utf8').replace('"schema_version": 1', '"schema_version": 2'));
    const { code, stderr } = await folder.run(['capitals', '-n', '3', '-R', directory]);
    expect([code, lines(stderr).length]).toEqual([2, 1]);
    expect(stderr).toMatch(/schema_version 2, this version of vf-search reads 1: use the version that wrote it/);
  });
});
