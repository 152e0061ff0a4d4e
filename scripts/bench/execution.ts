/**
 * Compares the sandbox `wasi` with its promise (the peer "aim") and with a process of Python for each program.
 * `node --conditions=vf-search-source scripts/bench/execution.ts [--json]`
 */
import { spawnSync } from 'node:child_process';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type * as execution from '../../src/execution/index.ts';
import { type Measurement, median, report } from './measurement.ts';

// Uses the build, as users do: a thread that reads TypeScript loads a compiler first.
const BUILD = new URL('../../dist/src/execution/index.js', import.meta.url);
const { DEFAULT_LIMITS, openExecutor } = (await import(BUILD.href)) as Pick<typeof execution, 'DEFAULT_LIMITS' | 'openExecutor'>;

// Otherwise, garbage of the start would distort the measurement.
setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const WARM_UP = 300;
const JOBS = 2000;
const LONG = 10_000;
const FRESH = 40;
const LOOP_MS = 500;
const MEGABYTE = 1e6;
const signal = new AbortController().signal;

const aim = (what: string, unit: string, ours: number, peer: number): Measurement => ({
  what,
  unit,
  ours,
  against: 'aim',
  peer,
  ratio: ours / peer,
  bar: 1,
});

let serial = 0;
/** A program that no earlier job has run, so that no cache contains it. */
const program = () => `def f(a):\n    a = a[::-1]\n    a = a + '${(serial += 1)}'\n    return a`;

async function run(executor: execution.CodeExecutor, code: string, seconds = 30): Promise<void> {
  const result = await executor.run({ code, calls: ["'314'"], hashSeed: 0, limits: { ...DEFAULT_LIMITS, seconds } }, { signal });
  const call = result.kind === 'ran' ? result.calls[0]! : null;
  if (call === null || !('repr' in call)) throw new Error(`the program did not run: ${JSON.stringify(result)}`);
}

async function wallMs(work: () => Promise<unknown>): Promise<number> {
  const startedAtMs = performance.now();
  await work();
  return performance.now() - startedAtMs;
}

async function cpuMs(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

async function inTurn(count: number, work: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = [];
  for (let i = 0; i < count; i += 1) times.push(await wallMs(work));
  return times;
}

function rss(): number {
  collectGarbage();
  return process.memoryUsage().rss;
}

async function memoryOfWorker(): Promise<number> {
  const sizes: number[] = [];
  for (const workers of [1, 5]) {
    const executor = await openExecutor('wasi', { workers, cacheBytes: 0 });
    await Promise.all(Array.from({ length: 20 * workers }, () => run(executor, program())));
    sizes.push(rss());
    await executor.close();
  }
  return (sizes[1]! - sizes[0]!) / 4;
}

let executor = await openExecutor('wasi', { workers: 2, cacheBytes: 0 });
await executor.close();
const ready = await wallMs(async () => {
  executor = await openExecutor('wasi', { workers: 2, cacheBytes: 0 });
  await run(executor, program());
});
await inTurn(WARM_UP, () => run(executor, program()));
const warm = median(await inTurn(JOBS, () => run(executor, program())));
await Promise.all(Array.from({ length: WARM_UP }, () => run(executor, program())));
const parallel = (await wallMs(() => Promise.all(Array.from({ length: JOBS }, () => run(executor, program()))))) / JOBS;
const fresh = (await cpuMs(() => inTurn(FRESH, () => run(executor, `import sys\n${program()}`)))) / FRESH;
const loops: number[] = [];
for (let i = 0; i < 5; i += 1) {
  // Both workers are ready again.
  await Promise.all(Array.from({ length: 50 }, () => run(executor, program())));
  const limits = { ...DEFAULT_LIMITS, seconds: LOOP_MS / 1000 };
  loops.push((await wallMs(() => executor.run({ code: 'while True: pass', calls: [''], hashSeed: 0, limits }, { signal }))) - LOOP_MS);
}
await inTurn(WARM_UP, () => run(executor, program()));
const sizeBefore = rss();
const thousand = () => cpuMs(() => inTurn(1000, () => run(executor, program())));
const first = await thousand();
await inTurn(LONG - 2000, () => run(executor, program()));
const slowing = (await thousand()) / first;
const growth = Math.max(0, rss() - sizeBefore);
await executor.close();
const python = median(
  await inTurn(20, () => Promise.resolve(spawnSync('python3', ['-I', '-S', '-c', `${program()}\nprint(repr(f('314')))`], { stdio: 'ignore' }))),
);

report([
  aim('sandbox wasi: a plain program, p50', 'ms', warm, 1),
  {
    what: 'sandbox wasi: a plain program, p50',
    unit: 'ms',
    ours: warm,
    against: 'python3 -I -S, a process',
    peer: python,
    ratio: warm / python,
    bar: 0.1,
  },
  aim('sandbox wasi: a plain program on two workers', 'ms', parallel, 1),
  aim('sandbox wasi: an interpreter of its own, CPU', 'ms', fresh, 80),
  aim('sandbox wasi: the first program after the start', 'ms', ready, 1000),
  aim('sandbox wasi: a loop after its deadline', 'ms', median(loops), 50),
  aim('sandbox wasi: memory of one more worker', 'MB', (await memoryOfWorker()) / MEGABYTE, 25),
  aim('sandbox wasi: growth over 10,000 programs', 'MB', growth / MEGABYTE, 25),
  aim('sandbox wasi: CPU of the last of 10,000 programs, to the first', 'times', slowing, 1.25),
]);
