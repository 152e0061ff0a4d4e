import { describe, expect, it } from 'vitest';
import { ServerHealth } from '../../src/launch/server-health.ts';
import { loopback } from '../transport/loopback.ts';

describe('ServerHealth', () => {
  it.each([2 ** 31, 2 ** 40])('waits for a server that comes up, with a deadline of %i ms', async (deadlineMs) => {
    let asked = 0;
    await using server = await loopback((_, response) => response.writeHead(++asked < 3 ? 503 : 200).end());
    const health = new ServerHealth({ baseUrl: server.url });
    try {
      await health.wait({ signal: new AbortController().signal, deadlineMs, maxDelayMs: 1 });
    } finally {
      await health.close();
    }
    expect(server.requests).toEqual(['GET /health', 'GET /health', 'GET /health']);
  });
});
