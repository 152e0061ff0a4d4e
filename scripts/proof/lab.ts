/**
 * The lab trains in a real browser: `vf-view --lab` as a user starts it, Debian's Chromium without a window, its buttons pressed. Judges the time to a held-out accuracy of
 * .90, that the downloaded adapter is that of `vf-train` in Node with the same seed and threads, byte for byte, and that the page asks no other server.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Browser } from 'playwright-core';
import { labApp } from '../../src/server/lab/lab-app.ts';
import { listen } from '../../src/server/listen.ts';
import { cpuSeconds, LabPage, openBrowser } from '../lab/lab-page.ts';
import { takeShots } from '../lab/take-shots.ts';
import type { Proof, ProofOptions } from './proof-options.ts';
import type { Verdict } from './results-page.ts';
import { ROOT } from './train-once.ts';

const BARS = { heldOut: 0.9, seconds: 60 };
const PATIENCE_MS = 600_000;

export const LAB: Proof = {
  about: 'the lab trains in a real Chromium, as in Node; quick: two steps; writes no page',
  flags: ['quick', 'only', 'seeds', 'shots'],
  parts: ['two-threads', 'one-thread'],
  prove: proveLab,
};

async function proveLab({ quick, only, seeds, shots }: ProofOptions): Promise<readonly Verdict[]> {
  const lab = new LabProof(seeds[0]!, quick, shots);
  const parts = only ?? (quick ? ['two-threads'] : LAB.parts!);
  const browser = await openBrowser();
  try {
    if (parts.includes('two-threads')) await lab.proveThreads(browser);
    if (parts.includes('one-thread')) await lab.proveOneThread(browser);
  } finally {
    await browser.close();
  }
  return lab.verdicts;
}

class LabProof {
  readonly verdicts: Verdict[] = [];
  readonly #seed: number;
  readonly #quick: boolean;
  readonly #shots: string | undefined;

  constructor(seed: number, quick: boolean, shots: string | undefined) {
    this.#seed = seed;
    this.#quick = quick;
    this.#shots = shots;
  }

  #judge(ok: boolean, text: string): void {
    this.verdicts.push({ ok, text });
  }

  async proveThreads(chromium: Browser): Promise<void> {
    const served = spawn(process.execPath, [join(ROOT, 'bin/vf-view.js'), '--lab', '--port', '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      const [address] = (await once(createInterface({ input: served.stdout }), 'line')) as [string];
      const lab = await LabPage.open(chromium, address);
      this.#judge(await lab.isIsolated(), `the page at ${address} may share memory between threads`);
      const before = await cpuSeconds(chromium);
      await lab.start({ seed: this.#seed, threads: 2 });
      if (this.#quick) await lab.stopAt(2, PATIENCE_MS);
      const { heldOut, secondsToGoal, status } = await lab.ended(PATIENCE_MS);
      const spent = (await cpuSeconds(chromium)) - before;
      process.stdout.write(`       ${status} Held-out accuracy ${heldOut.toFixed(3)}. Chromium took ${spent.toFixed(1)} s of CPU time.\n`);
      if (!this.#quick) this.#judgeGoal(heldOut, secondsToGoal);
      await this.#judgeAdapter(lab, 2);
      if (this.#shots !== undefined) await takeShots(lab, join(ROOT, this.#shots));
      this.#judge(lab.foreign.length === 0, `the page asked no other server${lab.foreign.length === 0 ? '' : `: ${lab.foreign.join(', ')}`}`);
      this.#judge(lab.problems.length === 0, `the page reported no error${lab.problems.length === 0 ? '' : `: ${lab.problems.join('; ')}`}`);
      await lab.page.close();
    } finally {
      served.kill('SIGINT');
    }
  }

  #judgeGoal(heldOut: number, seconds: number | null): void {
    const reached = seconds === null ? 'never' : `${seconds.toFixed(1)} s after the press of Start`;
    this.#judge(seconds !== null && seconds <= BARS.seconds, `two threads: held-out accuracy .90 reached ${reached}; at most ${BARS.seconds} s`);
    this.#judge(heldOut >= BARS.heldOut, `two threads: held-out accuracy ${heldOut.toFixed(3)} at the end; at least ${BARS.heldOut}`);
  }

  /** A static server that sends no headers of isolation. */
  async proveOneThread(chromium: Browser): Promise<void> {
    const folders = { page: join(ROOT, 'dist/web/lab'), models: join(ROOT, 'models'), kernels: join(ROOT, 'dist/src/engine/kernels/wasm') };
    const server = await listen(labApp({ ...folders, host: '127.0.0.1', isolated: false }), { host: '127.0.0.1', port: 0 });
    try {
      const lab = await LabPage.open(chromium, server.url);
      this.#judge(!(await lab.isIsolated()), 'without the headers of isolation the page may not share memory');
      await lab.start({ seed: this.#seed, threads: 1 });
      const { heldOut, secondsToGoal } = await lab.ended(PATIENCE_MS);
      const reached = secondsToGoal === null ? 'never reached .90' : `.90 after ${secondsToGoal.toFixed(1)} s`;
      this.#judge(heldOut >= BARS.heldOut, `one thread: held-out accuracy ${heldOut.toFixed(3)} at the end, ${reached}; at least ${BARS.heldOut}`);
      await this.#judgeAdapter(lab, 1);
      this.#judge(
        lab.problems.length === 0,
        `one thread: the page reported no error${lab.problems.length === 0 ? '' : `: ${lab.problems.join('; ')}`}`,
      );
    } finally {
      await server.close({ graceMs: 0 });
    }
  }

  /** Trains the same in Node, for as many steps as the page did. */
  async #judgeAdapter(lab: LabPage, threads: number): Promise<void> {
    const { name, files } = await lab.download();
    const steps = /-step-(\d+)\.zip$/.exec(name)?.[1] ?? '15';
    const folder = mkdtempSync(join(tmpdir(), 'vf-lab-'));
    try {
      const settings = [`policy.embedded.threads=${threads}`, 'evaluation.examples=1', `checkpoint.every=${steps}`].flatMap((set) => ['--set', set]);
      const flags = ['search-r1', '--preset', 'laptop', '--seed', String(this.#seed), '--steps', steps, '-o', folder, '--json', ...settings];
      const run = spawn(process.execPath, [join(ROOT, 'bin/vf-train.js'), ...flags], { cwd: ROOT, stdio: ['ignore', 'pipe', 'ignore'] });
      let printed = '';
      run.stdout.on('data', (piece: Buffer) => (printed += piece.toString()));
      await once(run, 'close');
      const { adapter } = JSON.parse(printed) as { readonly adapter: string };
      for (const [file, bytes] of files) {
        const same = readFileSync(join(adapter, file)).equals(bytes);
        this.#judge(
          same,
          `${file} of seed ${this.#seed}, ${threads} thread${threads === 1 ? '' : 's'}, ${steps} steps: the same ${bytes.length} bytes as vf-train wrote in Node`,
        );
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
}
