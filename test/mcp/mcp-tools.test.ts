/** Tools of MCP servers in environments and agents: real processes over stdio, a real server over streamable HTTP. */
import { ToolLoopAgent, isStepCount } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { AgentEnv } from '../../src/core/agent-env.ts';
import { Dataset, type Row } from '../../src/core/dataset.ts';
import { CancelledError, ConfigError, ToolError } from '../../src/core/errors.ts';
import { Random } from '../../src/core/random.ts';
import { Rubric } from '../../src/core/rubric.ts';
import { ToolEnv, type ToolState } from '../../src/core/tool-use.ts';
import { type McpTools, mcpTools, type McpToolsOptions } from '../../src/mcp/mcp-tools.ts';
import { rolloutError } from '../../src/rollouts/rollout.ts';
import { loopback, refusingUrl, until } from '../transport/loopback.ts';
import { bundledProgram } from './bundled-program.ts';

let SERVER: string;
const { signal } = new AbortController();
let folder: string;
let logs = 0;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'mcp-tools-'));
  SERVER = bundledProgram(join(import.meta.dirname, 'notes-server.ts'), folder);
});
afterAll(() => rmSync(folder, { recursive: true }));

const newLog = () => join(folder, `${logs++}.log`);
const linesOf = (log: string) => (existsSync(log) ? readFileSync(log, 'utf8').split('\n').slice(0, -1) : []);
const stdio = (log: string, more: McpToolsOptions = {}) => mcpTools({ command: process.execPath, args: [SERVER, 'stdio', log], ...more });
/** Process ids. */
const startedBy = (log: string) => linesOf(log).flatMap((line) => (line.startsWith('started') ? [Number(line.split(' ')[1])] : []));
const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

async function withHttp<T>(use: (url: string, log: string, child: ChildProcess) => Promise<T>): Promise<T> {
  const log = newLog();
  const child = spawn(process.execPath, [SERVER, 'http', log], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    return await use(line.toString('utf8').trim(), log, child);
  } finally {
    child.kill('SIGKILL');
  }
}

const row: Row = { exampleId: 0, prompt: [{ role: 'user', content: 'Take notes.' }] };
const environmentWith = (...tools: McpTools[]) =>
  new ToolEnv({ id: 'notes', eval: new Dataset('notes', [row]), rubric: new Rubric({ funcs: [] }), tools, calls: 'native' });

/** What the policy reads of its calls in one episode. */
async function played(environment: ToolEnv, ...calls: readonly (readonly [name: string, text?: string])[]) {
  await using episode = await environment.start(row, { random: Random.fromSeed(0), signal });
  const read: unknown[] = [];
  for (const [i, [name, text]] of calls.entries()) {
    const args = text === undefined ? {} : { text };
    const toolCalls = [{ id: `c${i}`, name, args, text: JSON.stringify(args) }];
    const { observation } = await episode.step('', { finish: 'stop', stopReason: null, toolCalls, signal });
    read.push(observation !== null && 'messages' in observation ? observation.messages[0]!.content : null);
  }
  return { read, state: episode.state as ToolState };
}

describe.concurrent('mcpTools in a ToolEnv', () => {
  it('offers the tools of a server under names that models take, and shows their texts; an error that it reports is read by the policy', async () => {
    await using tools = await stdio(newLog());
    const environment = environmentWith(tools);
    expect(environment.tools.map(({ name }) => name)).toContain('env_of');
    expect(environment.tools[0]).toMatchObject({
      name: 'note',
      description: 'The tool note.',
      parameters: { type: 'object', properties: { text: { type: 'string' } } },
    });
    const { read, state } = await played(environment, ['note', 'a'], ['notes'], ['fail'], ['refuse', 'x'], ['structured'], ['picture'], ['nowhere']);
    expect(read).toEqual([
      'noted a',
      'a',
      'Error: no such note',
      'Error: refuse takes no x',
      '{"n":1}',
      'Look:\n[image, image/png, 3 bytes]\nthe note\n[resource, more, note://2]',
      expect.stringMatching(/^Error: there is no tool "nowhere"/),
    ]);
    expect([state.toolErrors, state.badCalls]).toEqual([2, 1]);
  });

  it('closes the server with the environment, and with it what the server has started', async () => {
    const log = newLog();
    // As npx does: the server is the child of a shell.
    const tools = await mcpTools({ command: 'sh', args: ['-c', '"$0" "$@"; exit $?', process.execPath, SERVER, 'stdio', log] });
    const environment = environmentWith(tools);
    await played(environment, ['notes']);
    const pid = Number(linesOf(log)[0]!.split(' ')[1]);
    expect(isAlive(pid)).toBe(true);
    await environment.close();
    await until(() => !isAlive(pid));
    await expect(played(environment, ['notes'])).rejects.toThrow(/^The tools of the MCP server mcp are closed/);
    await environment.close();
  });

  it('fails the rollout where the server dies, says what it wrote last, and starts it again for the next one', async () => {
    const log = newLog();
    await using tools = await stdio(log, { name: 'notes' });
    const environment = environmentWith(tools);
    const failed = played(environment, ['note', 'a'], ['crash']);
    await expect(failed).rejects.toBeInstanceOf(ToolError);
    await expect(failed).rejects.toMatchObject({
      retryable: true,
      message: expect.stringMatching(/^The MCP server notes failed at crash: .*Connection closed; it wrote: out of ink$/),
    });
    expect((await played(environment, ['notes'])).read).toEqual(['']);
    expect(linesOf(log).filter((line) => line.startsWith('started'))).toHaveLength(2);
  });

  it('ends a call at its deadline or with its rollout, tells the server, and keeps the connection of the others', async () => {
    const log = newLog();
    await using tools = await stdio(log, { callTimeoutMs: 200 });
    await expect(played(environmentWith(tools), ['slow'])).rejects.toMatchObject({
      name: 'ToolError',
      retryable: true,
      message: expect.stringContaining('timed out'),
    });
    const controller = new AbortController();
    await using episode = tools.episode();
    const call = episode.call('slow', {}, { signal: controller.signal });
    const count = (line: string) => linesOf(log).filter((each) => each === line).length;
    await until(() => count('slow') === 2);
    controller.abort();
    await expect(call).rejects.toBeInstanceOf(CancelledError);
    await until(() => count('cancelled') === 2);
    expect(await episode.call('note', { text: 'b' }, { signal })).toBe('noted b');
    expect(linesOf(log).filter((line) => line.startsWith('started'))).toHaveLength(1);
  });

  it('bounds what the policy reads, and says how much is left out', async () => {
    await using tools = await stdio(newLog(), { maxChars: 10 });
    expect((await played(environmentWith(tools), ['long'])).read).toEqual([`${'é'.repeat(10)}\n[99,990 further characters left out]`]);
  });

  it('gives the server no variable of this process but those that it names', async () => {
    vi.stubEnv('VF_TEST_SECRET', 'hidden');
    try {
      await using tools = await stdio(newLog(), { env: { NAMED: 'yes' } });
      const { read } = await played(environmentWith(tools), ['env_of', 'VF_TEST_SECRET'], ['env_of', 'NAMED'], ['env_of', 'PATH']);
      expect(read).toEqual(['not set', 'yes', expect.stringContaining('/')]);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  it('replaces a client that left three calls in a row unanswered, for all episodes', async () => {
    const log = newLog();
    await using tools = await stdio(log, { callTimeoutMs: 300 });
    const environment = environmentWith(tools);
    const slow = await Promise.allSettled([1, 2, 3].map(() => played(environment, ['slow'])));
    expect(slow.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect((await played(environment, ['notes'])).read).toEqual(['']);
    expect(startedBy(log)).toHaveLength(2);
    await until(() => !isAlive(startedBy(log)[0]!));
  });

  it('repeats no secret: of its variables, of its arguments, in any error or result', async () => {
    const secrets = ['key-of-twenty-letters', 'hunter2hunter2', 'sk-in-an-argument', 'bearer-in-a-header'];
    const args = [SERVER, 'stdio', newLog(), `--token=${secrets[2]}`, '--header', `Authorization: Bearer ${secrets[3]}`];
    await using tools = await mcpTools({ command: process.execPath, args, env: { WIKI_KEY: secrets[0]!, WIKI_LOGIN: secrets[1]! } });
    const environment = environmentWith(tools);
    for (const secret of secrets) {
      const { read } = await played(environment, ['refuse', secret], ['fail', secret]);
      expect(read).toEqual(['Error: refuse takes no ***', 'Error: no note ***']);
      const broken = await played(environment, ['break', secret]).catch((error: unknown) => rolloutError(error, 'environment'));
      expect(broken).toMatchObject({ message: expect.stringMatching(/^The MCP server mcp failed at break: MCP error -32603: .*broken at \*\*\*$/) });
      // With its causes and their stacks, as it is recorded.
      expect(JSON.stringify(broken)).not.toContain(secret);
    }
    // A value under an ordinary name may be a folder, which the policy has to read.
    expect((await played(environment, ['env_of', 'WIKI_KEY'], ['env_of', 'WIKI_LOGIN'])).read).toEqual(['***', secrets[1]]);
    // At the place where a message is cut.
    const long = await played(environment, ['break', `${'x'.repeat(245)} ${secrets[0]!}`]).catch(String);
    expect(long).toContain('xxx ');
    expect(long).not.toContain(secrets[0]!.slice(0, 4));
    const gone = mcpTools({ command: './no-such-command', args: args.slice(3) });
    await expect(gone).rejects.toThrow('(./no-such-command --token=*** --header Authorization: ***)');
  });

  it('keeps the tools of several servers apart by a prefix, and refuses two of one name, also for an agent', async () => {
    await using a = await stdio(newLog(), { only: ['note', 'notes'] });
    await using b = await stdio(newLog(), { only: ['note', 'notes'], prefix: 'b_' });
    const agentWith = (...resources: McpTools[]) =>
      new AgentEnv({ id: 'noting', eval: new Dataset('notes', [row]), rubric: new Rubric({ funcs: [] }), run: async () => ({}), resources });
    expect(agentWith(a, b, a).id).toBe('noting');
    await using c = await stdio(newLog(), { only: ['note'] });
    expect(() => agentWith(a, c)).toThrow(/^Two tools are called "note"\. Rename one, or give the tools of a server a prefix\.$/);
    expect(() => environmentWith(a, a)).toThrow(/^Two tools are called "note"\. Rename one, or give the tools of a server a prefix\.$/);
    const { read } = await played(environmentWith(a, b), ['note', 'x'], ['b_note', 'y'], ['notes'], ['b_notes']);
    expect(read).toEqual(['noted x', 'noted y', 'x', 'y']);
  });
});

describe.concurrent('mcpTools where a reset fails', () => {
  it.each([
    ['by an error', 'break', /^The MCP server mcp failed at break: /],
    ['by silence', 'slow', /^The MCP server mcp failed at slow: .*timed out/],
    ['by a refusal', 'refuse', /^The MCP server mcp was not reset: its tool refuse reported an error$/],
  ])('%s, fails the rollout and ends the process that it started', async (_, tool, text) => {
    const log = newLog();
    await using tools = await stdio(log, { reset: { tool }, callTimeoutMs: 300 });
    await expect(played(environmentWith(tools), ['notes'])).rejects.toThrow(text);
    await until(() => startedBy(log).every((pid) => !isAlive(pid)));
  });
});

describe.concurrent('mcpTools and the state of a server', { tags: 'long' }, () => {
  it.each([
    ['its deadline', 1000, 60_000, 'timed out'],
    ['the end of its rollout', 60_000, 1000, 'Stopped before'],
  ])('starts a server again that no longer answers at all, after the one call that waited until %s', async (_, callTimeoutMs, rolloutMs, text) => {
    const log = newLog();
    await using tools = await stdio(log, { callTimeoutMs });
    await using first = tools.episode();
    await first.call('notes', {}, { signal });
    const [pid] = startedBy(log);
    process.kill(pid!, 'SIGSTOP');
    await expect(first.call('notes', {}, { signal: AbortSignal.timeout(rolloutMs) })).rejects.toThrow(text);
    await using second = tools.episode();
    expect(await second.call('notes', {}, { signal })).toBe('');
    expect(startedBy(log)).toHaveLength(2);
    expect(isAlive(pid!)).toBe(false);
  });

  const [one, two] = [[['note', 'a'], ['notes']] as const, [['note', 'b'], ['notes']] as const];

  it('is shared by all episodes without a reset', async () => {
    await using tools = await stdio(newLog());
    const environment = environmentWith(tools);
    await played(environment, ...one);
    expect((await played(environment, ...two)).read).toEqual(['noted b', 'a, b']);
  });

  it("begins anew with a client for each episode, also of two at once; their processes end with them: reset 'client'", async () => {
    const log = newLog();
    await using tools = await stdio(log, { reset: 'client' });
    const environment = environmentWith(tools);
    const [first, second] = await Promise.all([played(environment, ...one), played(environment, ...two)]);
    expect([first.read, second.read, (await played(environment, ['notes'])).read]).toEqual([['noted a', 'a'], ['noted b', 'b'], ['']]);
    const pids = linesOf(log).map((line) => Number(line.split(' ')[1]));
    expect(pids).toHaveLength(3);
    await until(() => pids.every((pid) => !isAlive(pid)));
  });

  it('begins with a call of a tool that the policy is not offered, on a client that no other episode has: reset { tool }', async () => {
    const log = newLog();
    await using tools = await stdio(log, { reset: { tool: 'reset' } });
    expect(tools.tools.map(({ name }) => name)).not.toContain('reset');
    const environment = environmentWith(tools);
    const [first, second] = await Promise.all([played(environment, ...one), played(environment, ...two)]);
    const third = await played(environment, ['notes']);
    expect([first.read, second.read, third.read]).toEqual([['noted a', 'a'], ['noted b', 'b'], ['']]);
    expect(
      linesOf(log)
        .map((line) => line.split(' ')[0]!)
        .toSorted((a, b) => a.localeCompare(b)),
    ).toEqual(['reset', 'reset', 'reset', 'started', 'started']);
  });

  it('fails the rollout if the reset fails', async () => {
    await using tools = await stdio(newLog(), { reset: { tool: 'fail' } });
    await expect(played(environmentWith(tools), ['notes'])).rejects.toThrow(/^The MCP server mcp was not reset: its tool fail reported an error$/);
  });
});

describe.concurrent('mcpTools over streamable HTTP', { tags: 'long' }, () => {
  it('sends its headers, has a session for each client, and ends it', async () => {
    await withHttp(async (url, log) => {
      await using tools = await mcpTools({ url, headers: { authorization: 'Bearer a-long-secret-token' }, reset: 'client' });
      const environment = environmentWith(tools);
      expect((await played(environment, ['note', 'a'], ['notes'])).read).toEqual(['noted a', 'a']);
      expect((await played(environment, ['notes'])).read).toEqual(['']);
      await environment.close();
      expect(linesOf(log).filter((line) => line === 'DELETE Bearer a-long-secret-token')).toHaveLength(2);
    });
  });

  it('connects again where the server has forgotten the session, after a rollout that failed', async () => {
    await withHttp(async (url, _, child) => {
      await using tools = await mcpTools({ url });
      const environment = environmentWith(tools);
      expect((await played(environment, ['note', 'a'])).read).toEqual(['noted a']);
      child.kill('SIGKILL');
      await once(child, 'exit');
      await expect(played(environment, ['notes'])).rejects.toMatchObject({ name: 'ToolError', retryable: true });
      await expect(played(environment, ['notes'])).rejects.toMatchObject({
        name: 'ToolError',
        retryable: true,
        message: expect.stringContaining('cannot be used'),
      });
      const port = new URL(url).port;
      const again = spawn(process.execPath, [SERVER, 'http'], { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, PORT: port } });
      try {
        await once(again.stdout, 'data');
        expect((await played(environment, ['notes'])).read).toEqual(['']);
      } finally {
        again.kill('SIGKILL');
      }
    });
  });

  it('repeats no secret of its headers or its URL', async () => {
    await using server = await loopback((request, response) =>
      response.writeHead(401).end(`no ${request.headers['x-key'] as string} and ${request.url}`),
    );
    const refused = mcpTools({ url: `${server.url}/mcp?token=url-secret-1`, headers: { 'x-key': 'header-secret-2' } });
    await expect(refused).rejects.toThrow(ConfigError);
    const { message } = await refused.then(
      () => new Error('It was taken'),
      (error: Error) => error,
    );
    expect(message).toContain('***');
    expect(message).not.toMatch(/url-secret-1|header-secret-2/);
  });
});

describe.concurrent('mcpTools for an agent of the AI SDK', () => {
  const usage = { inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 1, text: 1, reasoning: 0 } };
  /** Calls one tool, then says what it read. */
  const caller = (toolName: string) =>
    new MockLanguageModelV4({
      doGenerate: async ({ prompt }) => {
        const last = prompt.at(-1)!;
        const read = last.role === 'tool' && last.content[0]?.type === 'tool-result' ? last.content[0].output : null;
        if (read !== null)
          return { content: [{ type: 'text', text: JSON.stringify(read) }], finishReason: { unified: 'stop', raw: 'stop' }, usage, warnings: [] };
        return {
          content: [{ type: 'tool-call', toolCallId: 'c1', toolName, input: '{"text":"a"}' }],
          finishReason: { unified: 'tool-calls', raw: undefined },
          usage,
          warnings: [],
        };
      },
    });

  it('are tools that its agent calls, with the schema of the server', async () => {
    await using mcp = await stdio(newLog(), { only: ['note'] });
    await using tools = mcp.episode();
    const model = caller('note');
    const { text } = await new ToolLoopAgent({ model, tools: tools.aiTools(), stopWhen: isStepCount(3) }).generate({ prompt: 'Note.' });
    expect(JSON.parse(text)).toEqual({ type: 'text', value: 'noted a' });
    expect(model.doGenerateCalls[0]!.tools).toMatchObject([
      { name: 'note', description: 'The tool note.', inputSchema: { properties: { text: { type: 'string' } } } },
    ]);
  });

  it('is closed with its environment', async () => {
    const log = newLog();
    const mcp = await stdio(log);
    const environment = new AgentEnv({
      id: 'noting',
      eval: new Dataset('notes', [row]),
      rubric: new Rubric({ funcs: [] }),
      run: async () => ({}),
      resources: [mcp],
    });
    const pid = Number(linesOf(log)[0]!.split(' ')[1]);
    expect(isAlive(pid)).toBe(true);
    await environment.close();
    await until(() => !isAlive(pid));
  });

  it('calls nothing once the episode is over, so that no server is started for nobody', async () => {
    const log = newLog();
    await using mcp = await stdio(log, { reset: 'client' });
    const tools = mcp.episode();
    await tools[Symbol.asyncDispose]();
    await expect(tools.call('notes', {}, { signal })).rejects.toThrow(/^The episode is over, so notes is not called$/);
    expect(startedBy(log)).toHaveLength(1);
  });

  it('says of a client that was ended after a call without an answer that it is gone, and what it wrote', async () => {
    await using mcp = await stdio(newLog(), { reset: 'client', callTimeoutMs: 300 });
    const tools = mcp.episode();
    await expect(tools.call('slow', {}, { signal })).rejects.toThrow('timed out');
    await expect(tools.call('notes', {}, { signal })).rejects.toThrow(/^The MCP server mcp is gone, and with it what this episode had done$/);
    await tools[Symbol.asyncDispose]();
  });

  it('throws a failure of the server again at the end of the episode, which the SDK had shown to the model', async () => {
    await using mcp = await stdio(newLog());
    const run = async () => {
      await using tools = mcp.episode();
      const { text } = await new ToolLoopAgent({ model: caller('crash'), tools: tools.aiTools(), stopWhen: isStepCount(3) }).generate({
        prompt: 'Crash.',
      });
      return text;
    };
    await expect(run()).rejects.toBeInstanceOf(ToolError);
  });
});

describe.concurrent('mcpTools refuses in one line', () => {
  it.each([
    [{}, /^mcpTools needs a command or a url, and not both/],
    [{ command: 'x', url: 'http://x' }, /^mcpTools needs a command or a url, and not both/],
    [{ url: 'ftp://x' }, /^The url of mcpTools must begin with http/],
    [{ command: 'x', prefix: 'a b' }, /^The prefix "a b" of mcpTools must consist of letters, digits, _ and -$/],
    [
      { command: 'x', callTimeoutMs: Infinity },
      /^mcpTools takes a number of milliseconds above 0 and at most 2147483647 as callTimeoutMs, got Infinity$/,
    ],
    [
      { command: 'x', connectTimeoutMs: 3e9 },
      /^mcpTools takes a number of milliseconds above 0 and at most 2147483647 as connectTimeoutMs, got 3000000000$/,
    ],
    [{ command: 'x', argz: [] }, /^mcpTools has no option argz \(did you mean args\?\)/],
    [{ command: process.execPath, args: ['-e', '1'], reset: 'always' }, /^reset of mcpTools must be 'none', 'client' or \{ tool: NAME \}/],
    [{ command: './no-such-command' }, /^The MCP server mcp \(\.\/no-such-command\) cannot be used: .*not found$/],
    [
      { command: process.execPath, args: ['-e', 'process.stderr.write("cannot open the index");process.exit(1)'] },
      /it wrote: cannot open the index$/,
    ],
    [{ command: process.execPath, args: ['-e', 'setInterval(() => {}, 1000)'], connectTimeoutMs: 300 }, /timed out/],
  ])('%j', async (options, text) => {
    const refused = mcpTools(options as never);
    await expect(refused).rejects.toThrow(text);
    await expect(refused).rejects.toBeInstanceOf(ConfigError);
  });

  it.each([
    [['a.b', 'a_b', 'c'], 'would all be called a_b: "a.b", "a_b". Choose one of them with only.'],
    [['c', 'c'], 'would all be called c: "c", "c".'],
    [['c', ''], 'has a tool without a name. Name those to offer with only.'],
  ])('tools that no call could tell apart: %j', async (names, text) => {
    const env = { TOOLS: JSON.stringify(names) };
    await expect(stdio(newLog(), { env })).rejects.toThrow(text);
    await using tools = await stdio(newLog(), { env, only: [names[0]!].filter((name) => names.lastIndexOf(name) === 0) });
    expect(tools.tools.length).toBeLessThan(2);
  });

  it('a reset by a tool that the server does not have', async () => {
    await expect(stdio(newLog(), { reset: { tool: 'clear' } })).rejects.toThrow(/^The MCP server mcp has no tool clear/);
  });

  it('a server that does not answer', async () => {
    await expect(mcpTools({ url: await refusingUrl() })).rejects.toThrow(/^The MCP server mcp \(http:\/\/127\.0\.0\.1:\d+\) cannot be used: /);
  });
});
