import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { NANO_MODEL } from '../../loopback/vllm-client.ts';
import { until } from '../../transport/loopback.ts';
import { BusyHours } from './busy-hours.ts';
import { nanoServer } from './nano-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-busy-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe('startPolicyServer', () => {
  it('gives 64 clients, some of whom leave, the answers of a quiet server while adapters come and go', async () => {
    await using server = await nanoServer({ engine: { threads: 2 } });
    const hours = new BusyHours({ url: server.url, folder, baseModel: NANO_MODEL, clients: 64, requests: 300, seed: 1 });
    await hours.prepare();
    const report = await hours.run();
    expect(report.wrong).toEqual([]);
    expect(report.busy).toBe(0);
    expect(report.answered).toBeGreaterThan(150);
    expect(report.left).toBeGreaterThan(20);
    // Both clients that exchange adapters got to do so, however busy the machine is.
    expect(report.loads).toBeGreaterThanOrEqual(2);
    await until(() => server.engine.stats().requestsRunning + server.engine.stats().requestsWaiting === 0);
    await until(() => server.engine.stats().cacheUse === 0);
    // The requests of clients that left were not computed to the end.
    expect(server.engine.stats().finished).toMatchObject({ abort: expect.toSatisfy((count: number) => count > 0) as number, error: 0 });
    expect(server.engine.adapters.map(({ name }) => name)).toEqual(['steady-0', 'steady-1']);
    expect(server.failures).toEqual([]);
  }, 60_000);
});
