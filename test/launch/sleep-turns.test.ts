/** Against a loopback server that answers as vLLM 0.32.0 does in entrypoints/serve/dev/sleep/api_router.py. */
import { describe, expect, it } from 'vitest';
import { CancelledError, PolicyError } from '../../src/core/errors.ts';
import { SleepTurns } from '../../src/launch/sleep-turns.ts';
import { loopback, refusingUrl, sendJson } from '../transport/loopback.ts';

const signal = new AbortController().signal;

function sleepingServer({ hasRoutes = true } = {}) {
  let isAsleep = false;
  return loopback((request, response) => {
    const url = new URL(request.url!, 'http://server');
    if (!hasRoutes || request.method !== 'POST') return sendJson(response, 404, { detail: 'Not Found' });
    if (url.pathname === '/sleep') {
      isAsleep = true;
      return sendJson(response, 200, { status: 'sleeping', level: Number(url.searchParams.get('level')) });
    }
    if (url.pathname !== '/wake_up') return sendJson(response, 404, {});
    const was = isAsleep;
    isAsleep = false;
    return sendJson(response, 200, { status: 'awake', tags: null, was });
  });
}

describe('SleepTurns', () => {
  it('asks only for changes, once each, also when several ask at once', async () => {
    await using server = await sleepingServer();
    await using turns = new SleepTurns({ baseUrl: `${server.url}/v1`, apiKey: 'key' });
    await turns.wake(signal);
    await Promise.all([turns.sleep(signal), turns.sleep(signal), turns.sleep(signal)]);
    expect(turns.isAsleep).toBe(true);
    await Promise.all([turns.wake(signal), turns.wake(signal)]);
    expect(turns.isAsleep).toBe(false);
    expect(server.requests).toEqual(['POST /sleep?level=1', 'POST /wake_up']);
  });

  it('lets the worker give its memory back before the server takes its own', async () => {
    await using server = await sleepingServer();
    await using turns = new SleepTurns({ baseUrl: server.url, apiKey: 'key' });
    const seen: number[] = [];
    const before = async () => void seen.push(server.requests.length);
    await turns.wake(signal, before);
    await turns.sleep(signal);
    await turns.wake(signal, before);
    expect(seen).toEqual([1]);
  });

  it('names the flags that a server without sleep mode lacks, and stays awake', async () => {
    await using server = await sleepingServer({ hasRoutes: false });
    await using turns = new SleepTurns({ baseUrl: server.url, apiKey: 'key' });
    await expect(turns.sleep(signal)).rejects.toThrow(/--enable-sleep-mode and VLLM_SERVER_DEV_MODE=1$/);
    expect(turns.isAsleep).toBe(false);
  });

  it('takes a server that is gone for asleep, and fails when it has to wake it', async () => {
    await using turns = new SleepTurns({ baseUrl: await refusingUrl(), apiKey: 'key' });
    await turns.sleep(signal);
    expect(turns.isAsleep).toBe(true);
    await expect(turns.wake(signal)).rejects.toThrow(PolicyError);
    expect(turns.isAsleep).toBe(true);
  });

  it('ends a change at its deadline and at a cancellation', async () => {
    await using silent = await loopback(() => {});
    await using turns = new SleepTurns({ baseUrl: silent.url, apiKey: 'key', timeoutMs: 50 });
    await expect(turns.sleep(signal)).rejects.toThrow(/did not answer within 0\.05 s/);
    await expect(turns.sleep(AbortSignal.abort())).rejects.toThrow(CancelledError);
    expect(turns.isAsleep).toBe(false);
  });
});
