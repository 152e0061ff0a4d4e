import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, statSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { VllmProcess } from '../../src/launch/vllm-process.ts';
import { until } from '../transport/loopback.ts';
import { API_KEY, ask, isRunning, launchOptions } from './stand-in-python.ts';

const engineOf = async (server: VllmProcess) => ((await ask(server, '/engine')) as { pid: number }).pid;

describe('VllmProcess', () => {
  it('is healthy when start resolves, behind its key, and gone with its engine when it was stopped', async () => {
    const progress: string[] = [];
    const options = launchOptions({ onProgress: (text) => progress.push(text) });
    const server = await VllmProcess.start(options);
    const engine = await engineOf(server);
    expect(server).toMatchObject({ isAlive: true, starts: 1, baseUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/v1$/) as string });
    expect((await fetch(`${server.baseUrl}/models`)).status).toBe(401);
    expect(progress[0]).toContain(options.logPath);
    expect([server.pid, engine].map(isRunning)).toEqual([true, true]);
    await server.stop();
    await server.stop();
    expect(server.isAlive).toBe(false);
    expect([server.pid, engine].map(isRunning)).toEqual([false, false]);
  });

  it('keeps the key out of the command line and away from strangers: in the environment and a log of its own', async () => {
    const options = launchOptions();
    await using server = await VllmProcess.start(options);
    const { stdout } = spawn('ps', ['-ww', '-o', 'args=', '-p', String(server.pid)]);
    const [line] = (await once(createInterface({ input: stdout }), 'line')) as [string];
    expect(line).toContain('--served-model-name=nano');
    expect(line).not.toContain(API_KEY);
    expect(statSync(options.logPath).mode & 0o077).toBe(0);
  });

  it('ends a server that ignores SIGTERM', async () => {
    const server = await VllmProcess.start(launchOptions({ env: { STAND_IN: 'deaf' } }));
    const engine = await engineOf(server);
    await server.stop({ graceMs: 100 });
    expect(await server.exited).toMatchObject({ signal: 'SIGKILL' });
    expect([server.pid, engine].map(isRunning)).toEqual([false, false]);
  });

  it('says how a killed server ended and ends its engine too; a restart has the same URL and continues the same log', async () => {
    const options = launchOptions();
    await using server = await VllmProcess.start(options);
    const { pid, baseUrl } = server;
    const engine = await engineOf(server);
    process.kill(pid, 'SIGKILL');
    expect(await server.exited).toMatchObject({ code: null, signal: 'SIGKILL', lastLines: [expect.stringContaining('key ***') as string] });
    expect(server.isAlive).toBe(false);
    await until(() => !isRunning(engine));
    await server.restart(new AbortController().signal);
    expect(server).toMatchObject({ isAlive: true, baseUrl, starts: 2 });
    expect(server.pid).not.toBe(pid);
    await ask(server, '/engine');
    const log = readFileSync(options.logPath, 'utf8');
    expect(log.match(/^=== start \d/gm)).toEqual(['=== start 1', '=== start 2']);
    expect(server.logBytes).toBe(statSync(options.logPath).size);
  });

  it('quotes the error of a server that fails to start, without the key', async () => {
    const options = launchOptions({ env: { STAND_IN: 'fails' } });
    const failure = await VllmProcess.start(options).catch((error: unknown) => error as Error);
    expect(failure).toMatchObject({ name: 'PolicyError', message: expect.stringMatching(/ended with exit code 3.*vllm\.log/s) as string });
    expect((failure as Error).message).toContain('its log says: RuntimeError: no such device for *** (log: ');
  });

  it('gives up at the deadline and leaves nothing running', async () => {
    const options = launchOptions({ readyTimeoutMs: 600, env: { STAND_IN: 'never-ready' } });
    await expect(VllmProcess.start(options)).rejects.toThrow(/ready within 1 s.*(503|ECONNREFUSED)/s);
    await until(() => !isStarted(options.python));
  });

  it('stops starting when cancelled, and leaves nothing running', async () => {
    const controller = new AbortController();
    const options = launchOptions({ env: { STAND_IN: 'never-ready' }, signal: controller.signal });
    const start = VllmProcess.start(options);
    await until(
      () => statSync(options.logPath, { throwIfNoEntry: false })?.size !== undefined && readFileSync(options.logPath, 'utf8').includes('stand-in'),
    );
    controller.abort();
    await expect(start).rejects.toMatchObject({ name: 'CancelledError' });
    await until(() => !isStarted(options.python));
  });

  it.each([
    [{ python: '/nowhere/python' }, /\/nowhere\/python: there is no such command\. Set \[policy\.launch\]\.python/],
    [{ python: '/bin/false' }, /\/bin\/false: it failed/],
    [{ apiKey: 'short' }, /at least 16 visible/],
    [{ loraRank: 1000 }, /\[lora\]\.rank.*1 to 512.*1000/],
    [{ logPath: '/nowhere/vllm.log' }, /log to \/nowhere\/vllm\.log \(ENOENT\)/],
  ])('refuses %j', async (changes, message) => {
    await expect(VllmProcess.start(launchOptions(changes))).rejects.toMatchObject({
      name: 'ConfigError',
      message: expect.stringMatching(message) as string,
    });
  });

  it('ends with its engine when its parent dies of SIGKILL', async () => {
    expect(await endedWithParent('SIGKILL')).toBe(true);
  });

  it('ends with its engine when its parent dies of SIGTERM', { tags: 'long' }, async () => {
    expect(await endedWithParent('SIGTERM')).toBe(true);
  });

  async function endedWithParent(signal: NodeJS.Signals): Promise<boolean> {
    const options = launchOptions();
    const parent = spawn(process.execPath, [fileURLToPath(import.meta.resolve('./launching-parent.ts')), JSON.stringify(options)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(createInterface({ input: parent.stdout }), 'line')) as [string];
    const { pid, engine } = JSON.parse(line) as { pid: number; engine: number };
    expect([pid, engine].map(isRunning)).toEqual([true, true]);
    parent.kill(signal);
    await once(parent, 'exit');
    // The watcher, which ends them, ends a moment later itself.
    await until(() => !isRunning(pid) && !isRunning(engine) && !isStarted(options.python));
    return true;
  }
});

/** The watcher's command line names the Python too, and so it is looked for as well. */
function isStarted(python: string): boolean {
  const { stdout } = spawnSync('ps', ['-ww', '-A', '-o', 'args='], { encoding: 'utf8' });
  return stdout.includes(python);
}
