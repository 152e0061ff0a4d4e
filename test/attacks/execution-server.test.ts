import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AttackedServer, peakGrowth, startServer } from './attacked-process.ts';
import { ask, type HttpTarget, withstandsHttpAttacks } from './http-attacks.ts';

let server: AttackedServer;
beforeAll(async () => {
  server = await startServer(['execute', '--port', '0'], { env: { SERVER_SECRET: 'the-secret-of-the-server' } });
}, 60_000);
afterAll(() => server[Symbol.asyncDispose]());

const good = { code: 'def f(a): return a[::-1]', calls: ["'314'"] };
const target: HttpTarget = { server: () => server, path: '/run', good, refusals: { notJson: 422, wrongType: 415 } };
const run = async (code: string, limits: object = {}) => ask(target, JSON.stringify({ code, calls: ['1'], limits }));
const expectWell = async () => expect((await ask(target, JSON.stringify(good))).body).toBe('{"kind":"ran","calls":[{"repr":"\'413\'"}]}');

describe('vf-serve execute under attack', () => {
  withstandsHttpAttacks(target);

  it('keeps its secrets, its files and its process', async () => {
    for (const code of [
      'import os\ndef f(a): return dict(os.environ)',
      "def f(a): return open('/proc/self/environ').read()",
      "import os\ndef f(a): return os.system('kill -9 0')",
      `import os\ndef f(a): os.kill(${server.child.pid}, 9)`,
    ])
      expect((await run(code)).body).not.toContain('the-secret');
    await expectWell();
  });

  it('holds its memory while programs print, return and ask for more than it has', async () => {
    const programs = [
      'def f(a):\n  while True: print("x" * 10 ** 6)',
      'def f(a): return "x" * 30_000_000',
      'def f(a):\n  x = []\n  while True: x.append("y" * 10 ** 6)',
      'import os\ndef f(a):\n  while True: os.write(2, b"x" * 10 ** 6)',
    ];
    const grown = await peakGrowth(server, async () => {
      const answers = await Promise.all(programs.map((code) => run(code, { seconds: 0.5 })));
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    });
    expect(grown).toBeLessThan(400 * 2 ** 20);
    await expectWell();
  });

  it('gives an honest job its turn between the calls of one that has 256 loops', async () => {
    const gone = new AbortController();
    const calls = Array.from({ length: 256 }, (_, i) => String(i));
    const body = JSON.stringify({ code: 'def f(a):\n  while True: pass', calls, limits: { seconds: 0.3 } });
    const long = fetch(`${server.url}/run`, { method: 'POST', headers: { 'content-type': 'application/json' }, body, signal: gone.signal });
    const ended = long.then(() => 'the long job').catch(() => 'cut');
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(await Promise.race([ended, expectWell().then(() => 'the honest job')])).toBe('the honest job');
    gone.abort();
    expect(await ended).toBe('cut');
  });

  it('frees the worker of a client that goes away', async () => {
    const leaving = Array.from({ length: 6 }, async () => {
      const gone = new AbortController();
      const body = JSON.stringify({ code: 'while True: pass', calls: ['1'], limits: { seconds: 10 } });
      const asked = fetch(`${server.url}/run`, { method: 'POST', headers: { 'content-type': 'application/json' }, body, signal: gone.signal });
      setTimeout(() => gone.abort(), 300);
      await expect(asked).rejects.toThrow('abort');
    });
    await Promise.all(leaving);
    await expectWell();
  });
});
