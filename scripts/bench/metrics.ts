/**
 * Times the metrics of answers over the inputs of their vectors: SequenceMatcher's ratio against CPython's difflib, and all eight metrics of a question
 * against UltraRAG's own code, if `VF_BENCH_ULTRARAG` names a clone of OpenBMB/UltraRAG at 015e838. CPU time, alternating.
 *
 *     node --conditions=vf-search-source scripts/bench/metrics.ts [--rounds 9] [--json]
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { PreparedPrediction, QA_METRICS } from '../../src/metrics/qa-metrics.ts';
import { sequenceMatcherRatio } from '../../src/metrics/sequence-matcher.ts';
import { type Measurement, measurement, report } from './measurement.ts';
import { peerVenv } from './peer-venv.ts';

const GOLDEN = join(import.meta.dirname, '../../test/golden');
const PEER = join(import.meta.dirname, 'peers/metrics');
const METRICS = join(GOLDEN, 'search-o1/ultrarag_metrics.json');
const MATCHER = join(GOLDEN, 'grpo-000/grpo_sequence_matcher.json');
/** Passes over the inputs in a round; one takes some milliseconds. */
const PASSES = 20;

type Figures = Readonly<Partial<Record<'ratio' | 'metrics', number>>>;

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '9' }, json: { type: 'boolean' } } });
const pairs = inputs(MATCHER) as readonly { a: string; b: string }[];
const questions = inputs(METRICS) as readonly { gt: string[]; pred: string }[];
const tree = process.env['VF_BENCH_ULTRARAG'];
report(await besidePeer(Number(values.rounds)));

function inputs(path: string): readonly unknown[] {
  return (JSON.parse(readFileSync(path, 'utf8')) as { cases: { input: unknown }[] }).cases.map(({ input }) => input);
}

function ours(): Required<Figures> {
  return {
    ratio: microseconds(pairs, ({ a, b }) => sequenceMatcherRatio(a, b)),
    metrics: microseconds(questions, ({ gt, pred }) => {
      const prepared = new PreparedPrediction(pred, gt);
      return QA_METRICS.reduce((sum, name) => sum + prepared.metric(name), 0);
    }),
  };
}

/** CPU time of an item, the garbage collector's threads included. */
function microseconds<T>(items: readonly T[], call: (item: T) => number): number {
  const before = process.cpuUsage();
  for (let pass = 0; pass < PASSES; pass++) for (const item of items) call(item);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / PASSES / items.length;
}

async function besidePeer(rounds: number): Promise<Measurement[]> {
  const requirements = readFileSync(join(PEER, 'requirements.txt'), 'utf8').trim().split('\n');
  const python = tree === undefined ? 'python3' : join(peerVenv('metrics', requirements), 'python');
  const upstream = tree === undefined ? [] : [join(tree, 'servers/evaluation/src/evaluation.py')];
  const peer = spawn(python, [join(PEER, 'metrics_peer.py'), METRICS, MATCHER, ...upstream], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: peer.stdout })[Symbol.asyncIterator]();
  const closed = once(peer, 'close');
  try {
    const round = async (): Promise<{ ours: Required<Figures>; peer: Figures }> => {
      peer.stdin.write('\n');
      const { value, done } = await lines.next();
      if (done) throw new Error('The peer ended without an answer; see its output above.');
      return { ours: ours(), peer: JSON.parse(value) as Figures };
    };
    await round(); // warms both up
    const measured: Awaited<ReturnType<typeof round>>[] = [];
    for (let i = 0; i < rounds; i++) measured.push(await round());
    const rows = [
      { figure: 'ratio', what: 'SequenceMatcher, a pair', against: 'CPython difflib', bar: 0.2 },
      { figure: 'metrics', what: 'all eight metrics of a question', against: 'UltraRAG 015e838', bar: 0.15 },
    ] as const;
    return rows
      .filter(({ figure }) => measured[0]!.peer[figure] !== undefined)
      .map(({ figure, ...about }) =>
        measurement(
          { ...about, unit: 'CPU µs' },
          measured.map((m) => ({ ours: m.ours[figure], peer: m.peer[figure]! })),
        ),
      );
  } finally {
    peer.stdin.end();
    await closed;
  }
}
