/**
 * Runs every bench in its own process and prints one table of ours against the peers. If a bench fails, the output names it and the others still run.
 *
 *     npm run bench                            # all: a few minutes, more the first time, to install the peers
 *     npm run bench -- rollouts vf-eval        # only these
 *     npm run bench -- kernels --seconds 1     # one that prints its own figures, with its own flags (OWN_FIGURES)
 *     npm run bench -- --large --strict        # also BM25 over a million passages, 2,000 training steps, and vf-view over 100,000 rollouts; exit 1 if a bar is missed or a bench fails
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { isOver, type Measurement, measurementTable } from './measurement.ts';

const BENCHES: Readonly<Record<string, readonly string[]>> = {
  rollouts: ['rollouts.ts'],
  'vf-eval': ['vf-eval.ts'],
  bm25: ['bm25.ts', '--rows', '100000'],
  'bm25-large': ['bm25.ts', '--rows', '1000000', '--rounds', '3'],
  'client-images': ['client-images.ts'],
  'client-turns': ['client-turns.ts'],
  'environment-server': ['environment-server.ts'],
  execution: ['execution.ts'],
  gateway: ['gateway.ts'],
  metrics: ['metrics.ts'],
  pipelines: ['pipelines.ts'],
  'policy-loss': ['policy-loss.ts'],
  publish: ['publish.ts'],
  'search-o1': ['search-o1.ts'],
  'self-play-losses': ['self-play-losses.ts'],
  'streamed-scoring': ['streamed-scoring.ts'],
  'visual-rag': ['visual-rag.ts'],
  embedded: ['embedded.ts'],
  'embedded-memory': ['embedded-memory.ts', '--steps', '500'],
  'embedded-memory-large': ['embedded-memory.ts', '--steps', '2000'],
  'embedded-peers': ['embedded-peers.ts'],
  'view-large': ['view.ts'],
  'worker-ranks': ['worker-ranks.ts'],
};
/** They print their own figures, because they need an argument, take long or have no peer; run only when they are named, with the flags that follow. */
const OWN_FIGURES: Readonly<Record<string, string>> = {
  'agent-turns': 'agent-turns.ts',
  dense: 'dense.ts',
  'engine-compute': 'engine-compute.ts',
  'environment-soak': 'environment-soak.ts',
  'gateway-soak': 'gateway-soak.ts',
  'in-flight': 'in-flight.ts',
  'kept-rollouts': 'kept-rollouts.ts',
  kernels: 'kernels.ts',
  'policy-server-soak': 'policy-server-soak.ts',
  'tinker-step': 'tinker-step.ts',
  'trainer-overhead': 'trainer-overhead.ts',
};
const LARGE = Object.keys(BENCHES).filter((name) => name.endsWith('-large'));
const DEFAULT_BENCHES = Object.keys(BENCHES).filter((name) => !LARGE.includes(name));

interface Result {
  readonly measurements: readonly Measurement[];
  /** The reason why there are no measurements. */
  readonly failure: string | null;
}

function run(name: string): Result {
  const [file, ...flags] = BENCHES[name]!;
  const path = join(import.meta.dirname, file!);
  if (!existsSync(path)) return { measurements: [], failure: `${path} does not exist` };
  process.stderr.write(`${name} ...\n`);
  const { stdout, status, signal, error } = spawnSync(process.execPath, ['--conditions=vf-search-source', path, ...flags, '--json'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  });
  if (error) return { measurements: [], failure: error.message };
  if (status !== 0) return { measurements: [], failure: `it ended with ${signal ?? `exit status ${status}`}` };
  try {
    return { measurements: JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as Measurement[], failure: null };
  } catch {
    return { measurements: [], failure: 'its last line is not JSON' };
  }
}

/** Describes the machine, without which absolute figures mean nothing. */
function surroundings(): string {
  const { model } = cpus()[0] ?? { model: 'unknown processor' };
  const load = loadavg()
    .map((average) => average.toFixed(1))
    .join(' ');
  const memoryGb = (totalmem() / 2 ** 30).toFixed(0);
  return `${model}, ${availableParallelism()} cores, ${memoryGb} GB, Node ${process.versions.node}, load ${load}`;
}

const [first, ...flags] = process.argv.slice(2);
if (first !== undefined && Object.hasOwn(OWN_FIGURES, first)) {
  const script = join(import.meta.dirname, OWN_FIGURES[first]!);
  const { status, error } = spawnSync(process.execPath, ['--conditions=vf-search-source', script, ...flags], { stdio: 'inherit' });
  if (error) throw error;
  process.exit(status ?? 1);
}
const { values, positionals } = parseArgs({ options: { large: { type: 'boolean' }, strict: { type: 'boolean' } }, allowPositionals: true });
const unknown = positionals.find((name) => !(name in BENCHES));
if (unknown !== undefined) {
  process.stderr.write(`Unknown benchmark ${unknown}. Choose from ${[...Object.keys(BENCHES), ...Object.keys(OWN_FIGURES)].join(', ')}.\n`);
  process.exit(2);
}
const names = positionals.length > 0 ? positionals : DEFAULT_BENCHES;
const before = surroundings();
const results = [...new Set([...names, ...(values.large ? LARGE : [])])].map((name) => ({ name, ...run(name) }));
const measurements = results.flatMap((result) => result.measurements);
const failures = results.filter((result) => result.failure !== null);
const over = measurements.filter(isOver);

process.stdout.write(measurementTable(measurements));
for (const { name, failure } of failures) process.stdout.write(`${name}: FAILED, ${failure}\n`);
process.stdout.write(`\n${measurements.length} measured, ${over.length} over their bar, ${failures.length} benches failed\n`);
process.stdout.write(`${new Date().toISOString().slice(0, 10)}, ${before}\nnpm run bench${['', ...process.argv.slice(2)].join(' ')}\n`);
if (values.strict && over.length + failures.length > 0) process.exitCode = 1;
