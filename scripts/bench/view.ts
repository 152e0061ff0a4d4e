/**
 * Measures `vf-view` over two runs of 100,000 rollouts: time to the first answer, and the most memory of the server while it answers, searches and compares.
 *
 *     npm run --silent build && node --conditions=vf-search-source scripts/bench/view.ts [--rollouts 100000] [--json] [--strict]
 *
 * The lines are those of a real evaluation of search-r1, repeated under other ids: some 900 MB in a temporary folder. `--strict`: exit 1 over a bar.
 */
import { spawn, spawnSync } from 'node:child_process';
import { createWriteStream, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import { isOver, measurement, report } from './measurement.ts';

const { values } = parseArgs({
  options: { rollouts: { type: 'string', default: '100000' }, json: { type: 'boolean' }, strict: { type: 'boolean' } },
});
const rollouts = Number(values.rollouts);
const PER_ROW = 4;
/** Clock ticks of a second in /proc. */
const TICKS = 100;
const SECONDS = 2;
const MEGABYTES = 300;
const repository = join(import.meta.dirname, '../..');

const root = await mkdtemp(join(tmpdir(), 'vf-view-bench-'));
const server = { kill: () => {} };
try {
  const [metadata, lines] = await realRun();
  let bytes = 0;
  for (const name of ['first', 'second']) bytes = await copies(join(root, 'runs', name), { metadata, lines, shift: name === 'first' ? 0 : 1 });
  const { url, pid } = await start(join(root, 'runs'));
  const timed = async (path: string) => {
    const begun = performance.now();
    const response = await fetch(`${url}api/${path}`);
    if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
    await response.arrayBuffer();
    return (performance.now() - begun) / 1000;
  };
  const peak = () => Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1000;
  const cpu = () => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
    return (Number(fields[11]) + Number(fields[12])) / TICKS;
  };
  const started = cpu();
  const second = (what: string, ours: number, bar: number | null) =>
    measurement({ what, unit: 's', against: `${SECONDS} s`, bar }, [{ ours, peer: SECONDS }]);
  const memory = (what: string) => measurement({ what, unit: 'MB', against: `${MEGABYTES} MB`, bar: 1 }, [{ ours: peak(), peer: MEGABYTES }]);
  const set = 'run=first&set=results';
  const found = [
    second(
      `first answer over ${rollouts} rollouts (${(bytes / 1e6).toFixed(0)} MB), by reward`,
      await timed(`rollouts?${set}&sort=reward&descending=true`),
      1,
    ),
    second('the same, CPU of the server', cpu() - started, null),
    memory('peak memory, open'),
    second('next page', await timed(`rollouts?${set}&sort=reward&descending=true&from=5000`), null),
    second('summary with intervals', await timed('run?run=first'), null),
    memory('peak memory, with the summary'),
    second('search for a text that few have', await timed(`rollouts?${set}&text=wallace`), null),
    second('search for a text that none has', await timed(`rollouts?${set}&text=${encodeURIComponent('zzz 東京 zzz')}`), null),
    memory('peak memory, after searches'),
    second('comparison with a second such run, read from nothing', await timed('compare?set=first:results&set=second:results'), null),
    memory('peak memory, with the comparison'),
  ];
  report(found);
  if (values.strict && found.some(isOver)) process.exitCode = 1;
} finally {
  server.kill();
  await rm(root, { recursive: true });
}

async function realRun(): Promise<[metadata: Record<string, unknown>, lines: string[]]> {
  const output = join(root, 'real');
  const { status, stderr } = spawnSync(process.execPath, [join(repository, 'bin/vf-eval.js'), 'search-r1', '-n', '50', '-r', '4', '-o', output], {
    encoding: 'utf8',
    cwd: repository,
  });
  if (status !== 0) throw new Error(stderr);
  const [folder] = (await readdir(output, { recursive: true })).filter((name) => name.endsWith('results.jsonl'));
  const directory = join(output, folder!, '..');
  const text = await readFile(join(directory, 'results.jsonl'), 'utf8');
  return [JSON.parse(await readFile(join(directory, 'metadata.json'), 'utf8')) as Record<string, unknown>, text.trim().split('\n')];
}

interface Copied {
  readonly metadata: Record<string, unknown>;
  readonly lines: readonly string[];
  /** The mapping from lines to rollouts differs between the runs, so that rewards differ. */
  readonly shift: number;
}

/** Resolves with the bytes of results.jsonl. */
async function copies(directory: string, { metadata, lines, shift }: Copied): Promise<number> {
  await mkdir(directory, { recursive: true });
  const counts = { num_examples: rollouts / PER_ROW, rollouts_per_example: PER_ROW, num_planned: rollouts, num_finished: rollouts, num_errored: 0 };
  await writeFile(join(directory, 'metadata.json'), JSON.stringify({ ...metadata, ...counts }));
  const parsed = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  const path = join(directory, 'results.jsonl');
  await pipeline(Readable.from(repeated(parsed, shift)), createWriteStream(path));
  return (await stat(path)).size;
}

function* repeated(lines: readonly Record<string, unknown>[], shift: number): Generator<string> {
  for (let i = 0; i < rollouts; i++) {
    const [group, index] = [`row-${Math.floor(i / PER_ROW)}`, i % PER_ROW];
    const line = lines[(i + shift * (i % 3)) % lines.length]!;
    yield `${JSON.stringify({ ...line, example_id: group, group_id: group, rollout_index: index, rollout_id: `${group}/${index}` })}\n`;
  }
}

async function start(folder: string): Promise<{ url: string; pid: number }> {
  const child = spawn(process.execPath, [join(repository, 'bin/vf-view.js'), folder, '--port', '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
  server.kill = () => child.kill();
  for await (const chunk of child.stdout) return { url: String(chunk).trim(), pid: child.pid! };
  throw new Error('vf-view did not start');
}
