/** Against a loopback server that answers as vLLM 0.32.0 does in entrypoints/serve/dev/sleep/api_router.py. */
import { setTimeout as sleep } from 'node:timers/promises';
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

  it('takes a server that is gone for asleep, and for awake: the next sampler finds out', async () => {
    await using turns = new SleepTurns({ baseUrl: await refusingUrl(), apiKey: 'key' });
    await turns.sleep(signal);
    expect(turns.isAsleep).toBe(true);
    let isReleased = false;
    await turns.wake(signal, async () => void (isReleased = true));
    expect([turns.isAsleep, isReleased]).toEqual([false, true]);
  });

  it('does not take a server for gone whose connection breaks once', async () => {
    let broken = 0;
    await using server = await loopback((request, response) => {
      if (broken++ === 0) request.socket.destroy();
      else sendJson(response, 200, {});
    });
    await using turns = new SleepTurns({ baseUrl: server.url, apiKey: 'key' });
    await turns.sleep(signal);
    expect(server.requests).toEqual(['POST /sleep?level=1', 'POST /sleep?level=1']);
  });

  it('runs what needs the server in its turn, and keeps the server awake until that has ended', async () => {
    await using server = await sleepingServer();
    await using turns = new SleepTurns({ baseUrl: server.url, apiKey: 'key' });
    await turns.sleep(signal);
    const seen: string[] = [];
    const restart = Promise.withResolvers<string>();
    const work = turns.whileAwake(() => {
      seen.push(turns.isAsleep ? 'begun asleep' : 'begun awake');
      return restart.promise;
    }, signal);
    await sleep(10);
    expect(seen).toEqual([]);
    await turns.wake(signal);
    const asleep = turns.sleep(signal).then(() => seen.push('asleep'));
    await sleep(10);
    expect(seen).toEqual(['begun awake']);
    restart.resolve('restarted');
    expect(await work).toBe('restarted');
    await asleep;
    expect(seen).toEqual(['begun awake', 'asleep']);
    // A turn that was over before the work could begin does not count.
    const [late] = [turns.whileAwake(async () => turns.isAsleep, signal), await Promise.all([turns.wake(signal), turns.sleep(signal)])];
    expect(turns.isAsleep).toBe(true);
    await turns.wake(signal);
    expect(await late).toBe(false);
    await turns.sleep(signal);
    // Its failure is the caller's, and a cancelled caller waits no longer.
    await turns.wake(signal);
    await expect(turns.whileAwake(() => Promise.reject(new PolicyError('no room')), signal)).rejects.toThrow('no room');
    await turns.sleep(signal);
    await expect(turns.whileAwake(async () => 1, AbortSignal.timeout(5))).rejects.toThrow(CancelledError);
  });

  it('ends a change at its deadline and at a cancellation', async () => {
    await using silent = await loopback(() => {});
    await using turns = new SleepTurns({ baseUrl: silent.url, apiKey: 'key', timeoutMs: 50 });
    await expect(turns.sleep(signal)).rejects.toThrow(/did not answer within 0\.05 s/);
    await expect(turns.sleep(AbortSignal.abort())).rejects.toThrow(CancelledError);
    expect(turns.isAsleep).toBe(false);
  });
});
