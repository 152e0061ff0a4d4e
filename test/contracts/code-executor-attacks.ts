/**
 * What a hostile program tries, against every isolated CodeExecutor. Each attack is followed by an honest program that must come out right. An escape is
 * told by what it did outside: a secret in its result, a file, a connection, a signal.
 */
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CodeExecutor } from '../../src/execution/index.ts';
import { HONEST, runOn } from './code-executor.ts';
import { ENDLESS, ESCAPES, EXHAUSTIONS, FORGERIES, POISONS } from './hostile-programs.ts';

const SECRET = 'the-secret-of-the-host-5f1c';

/**
 * @param half 0 for the even ones of the programs that exhaust something, poison the interpreter or end at the deadline only, 1 for the odd ones: `npm test` runs
 *   these, and the others have the tag `long`. Two executors share them out
 * @param escapes `together`: one program tries all, one after the other; what it does not come to is tried alone. For interpreters that cannot fork
 */
export function isolationContract(
  open: () => Promise<CodeExecutor>,
  half: 0 | 1,
  { escapes = 'alone' }: { readonly escapes?: 'alone' | 'together' } = {},
): void {
  describe('isolation', () => {
    const folder = mkdtempSync(join(tmpdir(), 'sandbox-host-'));
    const connections: string[] = [];
    const signals: string[] = [];
    const onSignal = (name: string) => signals.push(name);
    let server: Server;
    let executor: CodeExecutor;
    let outcomes: ReadonlyMap<string, string> = new Map();
    const host = () => {
      const constants = { FOLDER: folder, PORT: (server.address() as AddressInfo).port, PID: process.pid };
      return Object.entries(constants).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
    };

    beforeAll(async () => {
      writeFileSync(join(folder, 'secret'), SECRET, { mode: 0o644 });
      process.env['SANDBOX_SECRET'] = SECRET;
      for (const name of ['SIGUSR2', 'SIGTERM'] as const) process.on(name, onSignal);
      server = createServer((socket) => {
        connections.push(String(socket.remoteAddress));
        socket.destroy();
      });
      await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve));
      executor = await open();
      if (escapes === 'together') outcomes = await triedTogether(executor, host());
    }, 60_000);

    afterAll(async () => {
      delete process.env['SANDBOX_SECRET'];
      for (const name of ['SIGUSR2', 'SIGTERM'] as const) process.off(name, onSignal);
      server.close();
      await executor.close();
      rmSync(folder, { recursive: true, force: true });
    });

    const expectHonest = async () => expect(await runOn(executor, HONEST.code, HONEST.calls)).toEqual(HONEST.result);
    const outside = () => ({ files: readdirSync(folder), connections, signals, marks: existsSync('/tmp/escaped') || existsSync('escaped') });

    it('counts at least 40 escapes and 20 exhaustions', () => {
      expect(Object.keys(ESCAPES).length).toBeGreaterThanOrEqual(40);
      expect(Object.keys({ ...EXHAUSTIONS, ...ENDLESS }).length).toBeGreaterThanOrEqual(20);
    });

    it.each(Object.entries(ESCAPES))('keeps in: %s', { timeout: 60_000 }, async (name, body) => {
      const code = [...host(), ...defined('f(a)', body)].join('\n');
      const together = outcomes.get(name);
      const result = together ?? (await runOn(executor, code, ['1'], { seconds: 2 }));
      expect(JSON.stringify(result)).not.toMatch(/the-secret-of-the-host|ESCAPED/);
      expect(outside()).toEqual({ files: ['secret'], connections: [], signals: [], marks: false });
      if (together === undefined) await expectHonest();
    });

    it('is honest after all of them', async () => {
      expect(await runOn(executor, HONEST.code, HONEST.calls)).toEqual(HONEST.result);
    });

    const endOf = async (code: string, seconds: number) => {
      const result = await runOn(executor, code, ['1'], { seconds, reprLength: 100 });
      return { next: await runOn(executor, HONEST.code, HONEST.calls), survived: JSON.stringify(result).includes('SURVIVED') };
    };
    const ended = { next: HONEST.result, survived: false };
    describe.each([
      { options: { timeout: 60_000 }, rest: half, seconds: 0.3 },
      { options: { tags: 'long' as const, timeout: 60_000 }, rest: 1 - half, seconds: 0.6 },
    ])('half of the programs', ({ options, rest, seconds }) => {
      const inHalf = (programs: Readonly<Record<string, string>>) => Object.entries(programs).filter((_, i) => i % 2 === rest);
      it.each(inHalf(EXHAUSTIONS))('ends: %s', options, async (_name, code) => {
        expect(await endOf(code, 0.6)).toEqual(ended);
      });
      it.each(inHalf(ENDLESS))('ends at the deadline: %s', options, async (_name, code) => {
        expect(await endOf(code, seconds)).toEqual(ended);
      });
      it.each(inHalf(POISONS))('lets no program spoil the next one: %s', options, async (_name, code) => {
        await runOn(executor, code, ['1'], { seconds: 5 });
        await expectHonest();
        expect(await runOn(executor, 'import json\ndef f(a): return json.dumps(sorted({a, len("abc")})), repr(a)', ['1'])).toEqual({
          kind: 'ran',
          calls: [{ repr: "('[1, 3]', '1')" }],
        });
      });
    });

    it.each(Object.entries(FORGERIES))('takes no reply that a program writes by itself: %s', { timeout: 60_000 }, async (_name, code) => {
      const result = await runOn(executor, code, ['1'], { seconds: 5 });
      expect(result).toEqual({ kind: 'ran', calls: [{ repr: "'honest'" }] });
      await expectHonest();
    });

    it('shows a program no variable', async () => {
      const code = 'import os, posix\ndef f(a): return dict(os.environ), dict(posix.environ), os.getenv("PATH")';
      expect(await runOn(executor, code, ['1'])).toEqual({ kind: 'ran', calls: [{ repr: '({}, {}, None)' }] });
    });

    it('tells no program whether an earlier one loaded what is loaded late, by the stack that it takes', { timeout: 60_000 }, async () => {
      const code = 'def f(a):\n  def g(n): return (1 << 99999) // (1 << 9999) > 1 if n == 0 else g(n - 1)\n  return g(a)';
      const depths = Array.from({ length: 3 }, (_, i) => String(985 - 20 * i));
      const ends = async () => Promise.all(depths.map((depth) => runOn(executor, code, [depth])));
      const before = await ends();
      await runOn(executor, code, ['1', '2']);
      expect(await ends()).toEqual(before);
      await expectHonest();
    });

    it('goes on after a program that is larger than its memory', { timeout: 60_000 }, async () => {
      const code = `x = '${'\u4e2d'.repeat(42_000_000)}'\ndef f(a): return a`;
      expect(JSON.stringify(await runOn(executor, code, ['1']))).toMatch(/crashed|memory|MemoryError/);
      await expectHonest();
    });

    it('gives a program that steals the token of its reply no say about the next one', async () => {
      const code = `
import sys
def f(a):
  frame = sys._getframe()
  while frame is not None:
    token = frame.f_locals.get('token')
    if token is not None:
      import channel
      for _ in range(3): channel.send([token, 'ran', '', "'stolen'"])
    frame = frame.f_back
  return 'own'`;
      // What it says about itself is no more than what its function could return.
      expect(await runOn(executor, code, ['1'])).toMatchObject({ kind: 'ran', calls: [{ repr: expect.stringMatching(/^'(stolen|own)'$/) }] });
      for (let i = 0; i < 3; i += 1) await expectHonest();
    });
  });
}

/** The outcome of each escape by its name, from one program that tries all of them; none if it was stopped. */
async function triedTogether(executor: CodeExecutor, host: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const attempts = Object.entries(ESCAPES).map(([name, body]) => [...defined('attempt()', body), `attempts[${JSON.stringify(name)}] = attempt`]);
  const code = [...host, 'attempts = {}', ...attempts.flat(), ...defined('f(a)', EACH)].join('\n');
  const result = await runOn(executor, code, ['1'], { reprLength: 100_000 });
  if (result.kind !== 'ran') return new Map();
  const [call] = result.calls;
  const lines = call !== undefined && 'repr' in call ? call.repr.slice(1, -1).split(';') : [];
  return new Map(lines.map((line) => line.split(':') as [string, string]).map(([name, hex]) => [name, Buffer.from(hex, 'hex').toString()]));
}

const EACH = `out = []
for name, attempt in attempts.items():
  try: outcome = repr(attempt())
  except BaseException as error: outcome = repr(error)
  out.append(name + ':' + outcome[:1000].encode(errors='replace').hex())
return ';'.join(out)`;

function defined(signature: string, body: string): readonly string[] {
  return [`def ${signature}:`, ...body.split('\n').map((line) => `  ${line}`)];
}
