/** Servers of the user's own over the Model Context Protocol, each a real process. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CancelledError } from '../../src/core/errors.ts';
import { NO_JOURNAL } from '../../src/pipelines/call-journal.ts';
import { openMcpServer } from '../../src/pipelines/mcp-server.ts';
import { parseYaml } from '../../src/pipelines/parse-yaml.ts';
import { parsePipeline } from '../../src/pipelines/pipeline.ts';
import { planPipeline } from '../../src/pipelines/pipeline-plan.ts';
import type { PipelineServer } from '../../src/pipelines/pipeline-server.ts';
import { runPipeline } from '../../src/pipelines/run-pipeline.ts';
import { bundledProgram } from '../mcp/bundled-program.ts';
import { until } from '../transport/loopback.ts';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';
import { tool } from './toy-servers.ts';

let SERVER: string;
/** Programs that never speak the protocol. */
const MUTE: Readonly<Record<string, string>> = {
  silent: 'setInterval(() => {}, 1000)',
  noise: "setInterval(() => process.stdout.write('this is not JSON-RPC\\n'), 20)",
  exits: "process.stderr.write('cannot open the index\\n'); process.exit(1)",
};
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mcp-'));
  SERVER = bundledProgram(join(import.meta.dirname, 'mcp-test-server.ts'), folder);
});
afterAll(() => rm(folder, { recursive: true }));

const ask: PipelineServer = { parameters: {}, tools: { start: tool('->q_ls', () => ({ q_ls: ['a', 'b'] })) } };

interface Options {
  readonly steps?: string;
  readonly signal?: AbortSignal;
  readonly callTimeoutMs?: number;
  readonly connectTimeoutMs?: number;
  readonly pidFile?: string;
}

const commandOf = (command: string, args: readonly string[]) =>
  ({ kind: 'command', command, args, env: { ...BARE_ENVIRONMENT, INDEX_KEY: 'key-of-an-index' } }) as const;
const programOf = (mode: string) => (mode in MUTE ? ['-e', MUTE[mode]!] : [SERVER, mode]);
/** The shell writes the id at once; Node may start only after the deadline, on a busy machine. */
const withPid = (mode: string, pidFile: string) =>
  commandOf('sh', ['-c', 'echo $$ > "$0" && exec "$@"', pidFile, process.execPath, ...programOf(mode), pidFile]);

async function run(mode: string, { steps = 'm.shout', signal = new AbortController().signal, pidFile, ...timeouts }: Options = {}) {
  const source = pidFile === undefined ? commandOf(process.execPath, programOf(mode)) : withPid(mode, pidFile);
  const server = await openMcpServer('m', source, { cwd: folder, signal, ...timeouts });
  try {
    return await play(server, steps, signal);
  } finally {
    await server.close?.();
  }
}

async function play(server: PipelineServer, steps: string, signal: AbortSignal) {
  const pipeline = parsePipeline(parseYaml(`servers: {ask: , m: }\npipeline: [ask.start, ${steps}]`, 'p'), 'p');
  const plan = planPipeline(pipeline, { servers: new Map(Object.entries({ ask, m: server })), named: new Map([['m', ['suffix']]]), where: 'p' });
  const parameters = new Map([['m', { suffix: '?' }]]);
  return (await runPipeline(plan, { parameters, journal: NO_JOURNAL, resolve: (path) => path, signal })).variables;
}

/** On a busy machine even the shell may have been killed before it wrote its id. */
function isEnded(pidFile: string): boolean {
  if (!existsSync(pidFile)) return true;
  try {
    process.kill(Number(readFileSync(pidFile, 'utf8')), 0);
    return false;
  } catch {
    return true;
  }
}

// What most of them do is wait.
describe.concurrent('openMcpServer', () => {
  it('calls tools with variables and parameters of their names, and takes what they declare or the step names', async () => {
    const { signal } = new AbortController();
    const server = await openMcpServer('m', commandOf(process.execPath, programOf('well')), { cwd: folder, signal });
    try {
      expect(await play(server, 'm.shout', signal)).toMatchObject({ loud_ls: ['A?', 'B?'] });
      expect(await play(server, '{m.plain: {output: {loud_ls: x}}}', signal)).toMatchObject({ x: ['A!', 'B!'] });
      expect(await play(server, 'm.ask', signal)).toMatchObject({ prompt_ls: ['Answer: a', 'Answer: b'] });
    } finally {
      await server.close?.();
    }
  });

  it('reaches a server over HTTP', async () => {
    const child = spawn(process.execPath, [SERVER, 'http'], { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      const [line] = (await once(child.stdout, 'data')) as [Buffer];
      const { signal } = new AbortController();
      const server = await openMcpServer('m', { kind: 'url', url: line.toString('utf8').trim(), headers: {} }, { cwd: folder, signal });
      expect(await play(server, 'm.shout', signal)).toMatchObject({ loud_ls: ['A?', 'B?'] });
      await server.close?.();
    } finally {
      child.kill('SIGKILL');
    }
  });

  it.each([
    ['dies', {}, /^m\.shout failed: .*[Cc]onnection closed.*; it wrote: out of memory$/],
    ['hangs', { callTimeoutMs: 300 }, /^m\.shout failed: .*timed out/],
    ['fails', {}, /^m\.shout failed: no such index for \*\*\*$/],
    ['garbage', { steps: 'm.plain' }, /^m\.plain must return a JSON object with its outputs, got "not JSON for \*\*\*"$/],
  ])('says which tool failed where the server %s', async (mode, options, message) => {
    await expect(run(mode, options)).rejects.toThrow(message);
  });

  it('refuses, in one line, a server that exits at once', async () => {
    await expect(run('exits')).rejects.toThrow(/^The MCP server m \(.* process\.exit\(1\)\) cannot be used: .*; it wrote: cannot open the index$/);
  });

  it('refuses a command that does not exist, and a URL where nothing listens', async () => {
    const { signal } = new AbortController();
    await expect(openMcpServer('m', { kind: 'command', command: './no-such-command', args: [], env: {} }, { cwd: folder, signal })).rejects.toThrow(
      /^The MCP server m \(\.\/no-such-command\) cannot be used: .*no-such-command: not found$/,
    );
    await expect(openMcpServer('m', { kind: 'url', url: 'http://127.0.0.1:1/mcp', headers: {} }, { cwd: folder, signal })).rejects.toThrow(
      /^The MCP server m \(http/,
    );
  });

  it.each([
    ['never answers', 'silent', /^The MCP server m .* cannot be used: .*timed out/],
    ['prints garbage', 'noise', /^The MCP server m .* cannot be used: /],
  ])('refuses, in one line, a server that %s, and kills it', async (_, mode, message) => {
    const pidFile = join(folder, `${mode}.pid`);
    await expect(run(mode, { pidFile, connectTimeoutMs: 800 })).rejects.toThrow(message);
    await until(() => isEnded(pidFile));
  });

  it('kills a server that does not end by itself', async () => {
    const pidFile = join(folder, 'stubborn.pid');
    // It does connect, however busy the machine is.
    expect(await run('stubborn', { pidFile, connectTimeoutMs: 60_000 })).toMatchObject({ loud_ls: ['A?', 'B?'] });
    await until(() => isEnded(pidFile));
  });

  it('leaves no process behind where this one ends right after a server was refused', async () => {
    const pidFile = join(folder, 'left.pid');
    const source = withPid('silent', pidFile);
    const program = `
      import { openMcpServer } from ${JSON.stringify(join(import.meta.dirname, '../../src/pipelines/mcp-server.ts'))};
      const options = { cwd: '.', signal: new AbortController().signal, connectTimeoutMs: 800 };
      await openMcpServer('m', ${JSON.stringify(source)}, options).catch(() => process.exit(7));
    `;
    const ending = spawn(process.execPath, ['--conditions=vf-search-source', '--input-type=module', '-e', program], { cwd: folder });
    expect(await once(ending, 'exit')).toEqual([7, null]);
    await until(() => isEnded(pidFile));
  });

  it('ends the server with the run, also one that was interrupted within a call', async () => {
    const [ended, interrupted] = [join(folder, 'ended.pid'), join(folder, 'interrupted.pid')];
    await run('well', { pidFile: ended });
    await until(() => isEnded(ended));
    const stop = new AbortController();
    const hanging = run('hangs', { pidFile: interrupted, signal: stop.signal });
    await until(() => existsSync(`${interrupted}.called`));
    stop.abort(new CancelledError('Interrupted by the user'));
    await expect(hanging).rejects.toThrow(/Interrupted by the user/);
    await until(() => isEnded(interrupted));
  });
});
