// Measures the index once, in its own process: `bm25-run.mjs corpus.jsonl questions.txt` prints one JSON object. See bm25.ts. Runs the compiled
// package, as users do, because stripping types would add 50 MB to the measured memory.
import { createReadStream, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const compiled = new URL('../../dist/src/retrieval/bm25/', import.meta.url);
const { Bm25Index } = await import(new URL('bm25-index.js', compiled).href);
const { IndexBuilder } = await import(new URL('index-builder.js', compiled).href);
const [corpusPath, questionsPath] = process.argv.slice(2);
const questions = readFileSync(questionsPath, 'utf8').trimEnd().split('\n');
const cpuSeconds = () => (process.cpuUsage().user + process.cpuUsage().system) / 1e6;

async function build() {
  let indexMs = 0;
  let indexCpuS = 0;
  const timed = (work) => {
    const startedAt = performance.now();
    const cpu = cpuSeconds();
    const result = work();
    indexMs += performance.now() - startedAt;
    indexCpuS += cpuSeconds() - cpu;
    return result;
  };
  const builder = new IndexBuilder();
  let passages = [];
  const add = () => {
    for (const contents of passages) builder.add(contents);
    passages = [];
  };
  // Reading is not timed; the peer also reads its passages before its clock starts.
  for await (const line of createInterface({ input: createReadStream(corpusPath) })) {
    passages.push(JSON.parse(line).contents);
    if (passages.length === 100) timed(add);
  }
  timed(add);
  return { index: timed(() => new Bm25Index(builder.finish())), indexS: indexMs / 1000, indexCpuS };
}

const { index, indexS, indexCpuS } = await build();
const peakMb = process.resourceUsage().maxRSS / 1024;
// The peer frees memory at once by reference counting; ours needs a garbage collection.
globalThis.gc();
const indexMb = process.memoryUsage.rss() / 2 ** 20;

function latenciesMs() {
  const taken = questions.map((question) => {
    const startedAt = performance.now();
    index.search(question, 3);
    return performance.now() - startedAt;
  });
  return Float64Array.from(taken).toSorted();
}

latenciesMs();
const passes = [latenciesMs(), latenciesMs(), latenciesMs()];
const at = (share) => passes.map((taken) => taken[Math.floor(share * taken.length)]).toSorted((a, b) => a - b)[1];
const report = { rows: index.rows, p50_ms: at(0.5), p95_ms: at(0.95), index_s: indexS, index_cpu_s: indexCpuS, index_mb: indexMb, peak_mb: peakMb };
process.stdout.write(`${JSON.stringify({ engine: 'vf-search', ...report })}\n`);
