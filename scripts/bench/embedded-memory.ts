/**
 * Resident memory of `vf-train` over many small steps of the laptop preset, and its peak: the memory that a long run keeps, and the garbage that it leaves. Linux only.
 *
 *     node --conditions=vf-search-source scripts/bench/embedded-memory.ts [--steps 2000] [--json]
 *
 * Uses the compiled package (npm run build), as users do. 2,000 steps take ten minutes on two idle cores.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { watchProcess } from '../proof/watch-process.ts';
import { type Measurement, measurement, report } from './measurement.ts';

const { values: given } = parseArgs({
  options: { steps: { type: 'string', default: '2000' }, json: { type: 'boolean' }, strict: { type: 'boolean' } },
});
const steps = Number(given.steps);

const BARS = { memoryMb: 400, fromStep50: 1.1, fromStep200: 1.05 };
const POINTS = [50, 200, 500, 2000];

const output = mkdtempSync(join(tmpdir(), 'vf-memory-'));
// A tiny learning rate keeps rewards different; with equal rewards a step would train nothing.
const sizes = ['--steps', String(steps), '-n', '3', '-r', '4', '--lr', '1e-6', '--set', 'evaluation.examples=16'];
const args = ['bin/vf-train.js', 'search-r1', '--preset', 'laptop', ...sizes, '--plain', '-o', output];
const child = spawn(process.execPath, args, { cwd: join(import.meta.dirname, '../..'), stdio: ['ignore', 'ignore', 'pipe'] });
const watch = watchProcess(child.pid!);
const bytes = new Map<number, number>();
for await (const line of createInterface({ input: child.stderr })) {
  const step = Number(/^step +([\d,]+)\//.exec(line)?.[1]?.replaceAll(',', ''));
  if ((POINTS.includes(step) || step === steps) && line.includes('reward') && !bytes.has(step)) bytes.set(step, residentBytes(child.pid!));
}
const { peakMemoryBytes: most } = watch.stop();
rmSync(output, { recursive: true, force: true });
if (most === null || !bytes.has(steps)) throw new Error('Could not read the memory of vf-train. This bench needs Linux.');

report([
  ...since(50, BARS.fromStep50),
  ...since(200, BARS.fromStep200),
  measurement({ what: `most memory in ${steps} training steps`, unit: 'MB', against: 'promised', bar: 1 }, [
    { ours: most / 1e6, peer: BARS.memoryMb },
  ]),
]);

/** The memory after later steps, each against that after `step`; the bar is for 500 steps from step 50 and for all from step 200. */
function since(step: number, bar: number): Measurement[] {
  const early = bytes.get(step);
  if (early === undefined) return [];
  const later = [...bytes].filter(([at]) => at > step && (step === 200 || at <= 500));
  const about = { unit: 'MB', against: `after ${step} steps` };
  return later.map(([at, late]) =>
    measurement({ ...about, bar, what: `memory after ${at} training steps` }, [{ ours: late / 1e6, peer: early / 1e6 }]),
  );
}

function residentBytes(pid: number): number {
  return 1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
}
