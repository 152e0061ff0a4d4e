/**
 * Proves that the lab trains in a real browser: `vf-view --lab` as a user starts it, Debian's Chromium without a window, its buttons pressed. Judges the time to a held-out
 * accuracy of .90, that the downloaded adapter is that of `vf-train` in Node with the same seed and threads, byte for byte, and that the page asks no other server.
 *
 *   npm run prove:lab                two threads and one; judges the time, so the machine should be idle
 *   npm run prove:lab -- --quick     two threads, stopped after two steps, and the same in Node; judges no time
 *
 * --seed 0   --shots DIR (pictures of the page)   --two-threads (leaves out the part with one)
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import type { Browser } from 'playwright-core';
import { labApp } from '../src/server/lab/lab-app.ts';
import { listen } from '../src/server/listen.ts';
import { cpuSeconds, LabPage, openBrowser } from './lab/lab-page.ts';
import { takeShots } from './lab/take-shots.ts';

const ROOT = join(import.meta.dirname, '..');
const BARS = { heldOut: 0.9, seconds: 60 };
const PATIENCE_MS = 600_000;

const { values: given } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    'two-threads': { type: 'boolean', default: false },
    seed: { type: 'string', default: '0' },
    shots: { type: 'string' },
  },
});
const seed = Number(given.seed);
const verdicts: { readonly ok: boolean; readonly text: string }[] = [];
const judge = (ok: boolean, text: string) => {
  verdicts.push({ ok, text });
  process.stdout.write(`${ok ? 'ok    ' : 'FAILED'} ${text}\n`);
};

const browser = await openBrowser();
try {
  await proveThreads(browser);
  if (!given.quick && !given['two-threads']) await proveOneThread(browser);
} finally {
  await browser.close();
}
const failed = verdicts.filter(({ ok }) => !ok).length;
process.stdout.write(failed === 0 ? `All ${verdicts.length} claims hold.\n` : `${failed} of ${verdicts.length} claims do not hold.\n`);
process.exitCode = failed === 0 ? 0 : 1;

async function proveThreads(chromium: Browser): Promise<void> {
  const served = spawn(process.execPath, [join(ROOT, 'bin/vf-view.js'), '--lab', '--port', '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [address] = (await once(createInterface({ input: served.stdout }), 'line')) as [string];
    const lab = await LabPage.open(chromium, address);
    judge(await lab.isIsolated(), `the page at ${address} may share memory between threads`);
    const before = await cpuSeconds(chromium);
    await lab.start({ seed, threads: 2 });
    if (given.quick) await lab.stopAt(2, PATIENCE_MS);
    const { heldOut, secondsToGoal, status } = await lab.ended(PATIENCE_MS);
    const spent = (await cpuSeconds(chromium)) - before;
    process.stdout.write(`       ${status} Held-out accuracy ${heldOut.toFixed(3)}. Chromium took ${spent.toFixed(1)} s of CPU time.\n`);
    if (!given.quick) judgeGoal(heldOut, secondsToGoal);
    await judgeAdapter(lab, 2);
    if (given.shots !== undefined) await takeShots(lab, join(ROOT, given.shots));
    judge(lab.foreign.length === 0, `the page asked no other server${lab.foreign.length === 0 ? '' : `: ${lab.foreign.join(', ')}`}`);
    judge(lab.problems.length === 0, `the page reported no error${lab.problems.length === 0 ? '' : `: ${lab.problems.join('; ')}`}`);
    await lab.page.close();
  } finally {
    served.kill('SIGINT');
  }
}

function judgeGoal(heldOut: number, seconds: number | null): void {
  const reached = seconds === null ? 'never' : `${seconds.toFixed(1)} s after the press of Start`;
  judge(seconds !== null && seconds <= BARS.seconds, `two threads: held-out accuracy .90 reached ${reached}; at most ${BARS.seconds} s`);
  judge(heldOut >= BARS.heldOut, `two threads: held-out accuracy ${heldOut.toFixed(3)} at the end; at least ${BARS.heldOut}`);
}

/** A static server that sends no headers of isolation. */
async function proveOneThread(chromium: Browser): Promise<void> {
  const folders = { page: join(ROOT, 'dist/web/lab'), models: join(ROOT, 'models'), kernels: join(ROOT, 'dist/src/engine/kernels/wasm') };
  const server = await listen(labApp({ ...folders, host: '127.0.0.1', isolated: false }), { host: '127.0.0.1', port: 0 });
  try {
    const lab = await LabPage.open(chromium, server.url);
    judge(!(await lab.isIsolated()), 'without the headers of isolation the page may not share memory');
    await lab.start({ seed, threads: 1 });
    const { heldOut, secondsToGoal } = await lab.ended(PATIENCE_MS);
    const reached = secondsToGoal === null ? 'never reached .90' : `.90 after ${secondsToGoal.toFixed(1)} s`;
    judge(heldOut >= BARS.heldOut, `one thread: held-out accuracy ${heldOut.toFixed(3)} at the end, ${reached}; at least ${BARS.heldOut}`);
    await judgeAdapter(lab, 1);
    judge(lab.problems.length === 0, `one thread: the page reported no error${lab.problems.length === 0 ? '' : `: ${lab.problems.join('; ')}`}`);
  } finally {
    await server.close({ graceMs: 0 });
  }
}

/** Trains the same in Node, for as many steps as the page did. */
async function judgeAdapter(lab: LabPage, threads: number): Promise<void> {
  const { name, files } = await lab.download();
  const steps = /-step-(\d+)\.zip$/.exec(name)?.[1] ?? '15';
  const folder = mkdtempSync(join(tmpdir(), 'vf-lab-'));
  try {
    const settings = [`policy.embedded.threads=${threads}`, 'evaluation.examples=1', `checkpoint.every=${steps}`].flatMap((set) => ['--set', set]);
    const flags = ['search-r1', '--preset', 'laptop', '--seed', String(seed), '--steps', steps, '-o', folder, '--json', ...settings];
    const run = spawn(process.execPath, [join(ROOT, 'bin/vf-train.js'), ...flags], { cwd: ROOT, stdio: ['ignore', 'pipe', 'ignore'] });
    let printed = '';
    run.stdout.on('data', (piece: Buffer) => (printed += piece.toString()));
    await once(run, 'close');
    const { adapter } = JSON.parse(printed) as { readonly adapter: string };
    for (const [file, bytes] of files) {
      const same = readFileSync(join(adapter, file)).equals(bytes);
      judge(
        same,
        `${file} of seed ${seed}, ${threads} thread${threads === 1 ? '' : 's'}, ${steps} steps: the same ${bytes.length} bytes as vf-train wrote in Node`,
      );
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
