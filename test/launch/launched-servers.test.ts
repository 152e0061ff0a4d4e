import { describe, expect, it } from 'vitest';
import { LaunchedServers } from '../../src/launch/launched-servers.ts';
import { VllmProcess } from '../../src/launch/vllm-process.ts';
import type { PolicyServers } from '../../src/trainer/weight-publisher.ts';
import { until } from '../transport/loopback.ts';
import { ask, launchOptions } from './stand-in-python.ts';

const signal = new AbortController().signal;

describe('LaunchedServers', () => {
  it('leaves a healthy server alone', async () => {
    await using server = await VllmProcess.start(launchOptions());
    const servers: PolicyServers = new LaunchedServers({ processes: [server], maxRestarts: 1 });
    const [replica] = servers.replicas;
    expect(`${replica}/v1`).toBe(server.baseUrl);
    await servers.revive(replica!, signal);
    expect(server.starts).toBe(1);
  });

  it('restarts a killed server once for all callers, while the other serves', async () => {
    await using one = await VllmProcess.start(launchOptions());
    await using two = await VllmProcess.start(launchOptions());
    const events: string[] = [];
    const servers = new LaunchedServers({ processes: [one, two], maxRestarts: 3, onEvent: (text) => events.push(text) });
    const lost: string[] = [];
    using _ = servers.watch((replica, why) => lost.push(`${replica} ${why}`));
    const [replica, other] = servers.replicas;
    process.kill(one.pid, 'SIGKILL');
    await until(() => lost.length > 0);
    expect(lost).toEqual([expect.stringMatching(new RegExp(`^${replica} it ended with SIGKILL.*last log line: stand-in`)) as string]);
    await Promise.all([servers.revive(replica!, signal), servers.revive(replica!, signal), servers.revive(other!, signal)]);
    expect([one.starts, two.starts, servers.restarts]).toEqual([2, 1, 1]);
    expect(events).toEqual([
      expect.stringMatching(/restarting the policy server http.* \(1 of 3\): it ended with SIGKILL.*last log line: stand-in.*\*\*\*/) as string,
    ]);
    process.kill(one.pid, 'SIGKILL');
    await until(() => lost.length === 2);
  });

  it('restarts a living server that stays unhealthy', async () => {
    await using server = await VllmProcess.start(launchOptions());
    const { pid } = server;
    await ask(server, '/fall-sick');
    const servers = new LaunchedServers({ processes: [server], maxRestarts: 1, silentMs: 100 });
    await servers.revive(servers.replicas[0]!, signal);
    expect(server.pid).not.toBe(pid);
  });

  it('gives up a replica after its allowed restarts, says how it ended, and still restarts the other', async () => {
    await using server = await VllmProcess.start(launchOptions());
    await using other = await VllmProcess.start(launchOptions());
    const servers = new LaunchedServers({ processes: [server, other], maxRestarts: 1 });
    const [replica, second] = servers.replicas;
    process.kill(server.pid, 'SIGKILL');
    await servers.revive(replica!, signal);
    process.kill(server.pid, 'SIGKILL');
    await server.exited;
    await expect(servers.revive(replica!, signal)).rejects.toMatchObject({
      name: 'PolicyError',
      message: expect.stringMatching(/after 1 of 1 restarts: it ended with SIGKILL.*vllm\.log/) as string,
    });
    process.kill(other.pid, 'SIGKILL');
    await servers.revive(second!, signal);
    expect(other.starts).toBe(2);
  });

  it('can be cancelled', async () => {
    await using server = await VllmProcess.start(launchOptions());
    await ask(server, '/fall-sick');
    const servers = new LaunchedServers({ processes: [server], maxRestarts: 1 });
    await expect(servers.revive(servers.replicas[0]!, AbortSignal.timeout(50))).rejects.toMatchObject({ name: 'CancelledError' });
  });
});
