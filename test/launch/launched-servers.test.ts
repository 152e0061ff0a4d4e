import { describe, expect, it } from 'vitest';
import { LaunchedServers } from '../../src/launch/launched-servers.ts';
import { VllmProcess } from '../../src/launch/vllm-process.ts';
import type { PolicyServers } from '../../src/trainer/publisher/policy-servers.ts';
import { ask, launchOptions } from './stand-in-python.ts';

const signal = new AbortController().signal;

describe('LaunchedServers', () => {
  it('leaves a healthy server alone', async () => {
    await using server = await VllmProcess.start(launchOptions());
    await ask(server, '/load/policy-v1');
    const servers: PolicyServers = new LaunchedServers({ process: server, maxRestarts: 1 });
    expect(await servers.recover('policy-v1', signal)).toEqual({ lostAdapters: false });
    expect(await servers.recover('policy-v2', signal)).toEqual({ lostAdapters: true });
    expect(server.starts).toBe(1);
  });

  it('restarts a killed server once for all callers, and says that its adapters are lost', async () => {
    await using server = await VllmProcess.start(launchOptions());
    await ask(server, '/load/policy-v1');
    const events: string[] = [];
    const servers = new LaunchedServers({ process: server, maxRestarts: 3, onEvent: (text) => events.push(text) });
    process.kill(server.pid, 'SIGKILL');
    const outcomes = await Promise.all([servers.recover('policy-v1', signal), servers.recover('policy-v1', signal), servers.recover('nano', signal)]);
    expect(outcomes).toEqual([{ lostAdapters: true }, { lostAdapters: true }, { lostAdapters: false }]);
    expect([server.starts, servers.restarts]).toEqual([2, 1]);
    expect(events).toEqual([
      expect.stringMatching(/restarting the policy server \(1 of 3\): it ended with SIGKILL.*last log line: stand-in.*\*\*\*/) as string,
    ]);
  });

  it('restarts a living server that stays unhealthy', async () => {
    await using server = await VllmProcess.start(launchOptions());
    const { pid } = server;
    await ask(server, '/fall-sick');
    const servers = new LaunchedServers({ process: server, maxRestarts: 1, silentMs: 500 });
    expect(await servers.recover('nano', signal)).toEqual({ lostAdapters: false });
    expect(server.pid).not.toBe(pid);
  });

  it('gives up after the allowed restarts, and says how the server ended', async () => {
    await using server = await VllmProcess.start(launchOptions());
    const servers = new LaunchedServers({ process: server, maxRestarts: 1 });
    process.kill(server.pid, 'SIGKILL');
    await servers.recover('nano', signal);
    process.kill(server.pid, 'SIGKILL');
    await server.exited;
    await expect(servers.recover('nano', signal)).rejects.toMatchObject({
      name: 'PolicyError',
      message: expect.stringMatching(/after 1 of 1 restarts: it ended with SIGKILL.*vllm\.log/) as string,
    });
  });

  it('can be cancelled', async () => {
    await using server = await VllmProcess.start(launchOptions());
    await ask(server, '/fall-sick');
    const servers = new LaunchedServers({ process: server, maxRestarts: 1 });
    await expect(servers.recover('nano', AbortSignal.timeout(50))).rejects.toMatchObject({ name: 'CancelledError' });
  });
});
