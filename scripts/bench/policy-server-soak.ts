/**
 * Runs the policy server with clients that come and go, long enough to see a leak. Reports requests, disconnects, adapter loads, answers that differ from a
 * quiet server's, and memory at start and end. Fails if an answer was wrong or something is left behind.
 *
 *     npm run bench -- policy-server-soak [--minutes 5] [--clients 64] [--threads 2] [--seed 1] [--json]
 *
 * Server and clients share one process, so the memory covers both. It is compared with the end of the first round, when everything has been used once.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { BusyHours, type BusyReport } from '../../test/server/policy/busy-hours.ts';
import { nanoServer, type NanoServer } from '../../test/server/policy/nano-server.ts';

const ROUND = 2000;

const { values: flags } = parseArgs({
  options: {
    minutes: { type: 'string', default: '5' },
    clients: { type: 'string', default: '64' },
    threads: { type: 'string', default: '2' },
    seed: { type: 'string', default: '1' },
    json: { type: 'boolean' },
  },
});
const number = (name: 'minutes' | 'clients' | 'threads' | 'seed') => {
  const value = Number(flags[name]);
  if (!(value >= 0)) throw new RangeError(`--${name} must be a number of at least 0, got ${flags[name]}.`);
  return value;
};

const folder = mkdtempSync(join(tmpdir(), 'vf-soak-'));
try {
  await using server = await nanoServer({ engine: { threads: number('threads') } });
  const endsAt = performance.now() + number('minutes') * 60_000;
  const total = { rounds: 0, begun: 0, answered: 0, left: 0, busy: 0, loads: 0, wrong: [] as string[] };
  let rssAtStart = 0;
  do {
    add(total, await round(server, total.rounds));
    if (total.rounds === 1) rssAtStart = await restingRss();
    if (flags.json !== true) process.stdout.write(`${line(total)}, ${megabytes(process.memoryUsage.rss())} MB\n`);
  } while (performance.now() < endsAt);
  const rssAtEnd = await restingRss();
  const { requestsRunning, requestsWaiting, cacheUse, memoryBytes } = server.engine.stats();
  const left = { running: requestsRunning, waiting: requestsWaiting, cacheUse, failures: server.failures.length };
  const { wrong, ...counts } = total;
  const result = { ...counts, wrong: wrong.length, rssAtStart, rssAtEnd, engineMemory: memoryBytes, ...left };
  for (const one of wrong.slice(0, 10)) process.stderr.write(`${one}\n`);
  process.stdout.write(
    flags.json === true
      ? `${JSON.stringify(result)}\n`
      : `${line(total)}\nmemory ${megabytes(rssAtStart)} MB after the first round, ${megabytes(rssAtEnd)} MB at the end (${megabytes(memoryBytes)} MB of them the engine's)\n` +
          `left behind: ${left.running} running, ${left.waiting} waiting, ${cacheUse} of the cache, ${left.failures} server failures\n`,
  );
  process.exitCode = wrong.length === 0 && Object.values(left).every((value) => value === 0) ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true });
}

/** Each round has new requests and new adapter names, except for two steady adapters. */
async function round(server: NanoServer, index: number): Promise<BusyReport> {
  for (const { name } of server.engine.adapters) server.engine.unloadAdapter(name);
  const options = { url: server.url, folder: join(folder, String(index)), baseModel: server.servedName };
  const hours = new BusyHours({ ...options, clients: number('clients'), requests: ROUND, seed: number('seed') + index });
  await hours.prepare();
  const report = await hours.run();
  rmSync(options.folder, { recursive: true });
  return report;
}

function add(total: { -readonly [K in keyof BusyReport]: BusyReport[K] } & { rounds: number }, report: BusyReport): void {
  total.rounds += 1;
  for (const key of ['begun', 'answered', 'left', 'busy', 'loads'] as const) total[key] += report[key];
  total.wrong = [...total.wrong, ...report.wrong];
}

/** Resident memory after garbage collection. */
async function restingRss(): Promise<number> {
  await sleep(1000);
  globalThis.gc?.();
  return process.memoryUsage.rss();
}

function line({ rounds, begun, answered, left, busy, loads, wrong }: BusyReport & { readonly rounds: number }): string {
  return `${rounds} rounds, ${begun} requests, ${answered} answered, ${left} disconnects, ${busy} refused as busy, ${loads} adapters loaded, ${wrong.length} wrong answers`;
}

function megabytes(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(0);
}
