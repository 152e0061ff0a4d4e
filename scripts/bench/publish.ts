/**
 * Measures the cost of publishing in addition to the server's own load: check, probe and switch of the nano model's adapter against a server; save and check of
 * a 4B model's adapter with random weights, in float32 and bfloat16. Saving writes every file, syncs it to disk, hashes it and renames the folder.
 *
 *     node --conditions=vf-search-source scripts/bench/publish.ts [--runs 9] [--url http://127.0.0.1:8000/v1] [--json]
 *
 * Also prints CPU time, because other work distorts the wall clock. Without --url the server is a loopback stand-in that answers at once; a real
 * one must serve test/models/nano-base with LoRA on.
 */
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { mkdir, open, rename } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { AdapterDescription, AdapterFiles } from '../../src/trainer/gradient-backend.ts';
import { checkAdapter } from '../../src/trainer/publisher/check-adapter.ts';
import { loraServer } from '../../test/loopback/lora-server.ts';
import { peftConfig, writeAdapter } from '../../test/trainer/publisher/adapter-files.ts';
import { PublisherRun } from '../../test/trainer/publisher/publisher-run.ts';
import { type Measurement, measurement, type Pair, report } from './measurement.ts';

/** All linear layers of Qwen3-4B: 36 layers, width 2560, queries 4096, keys and values 1024, MLP 9728. */
const QWEN3_4B: AdapterDescription = {
  rank: 16,
  alpha: 32,
  baseModel: 'Qwen/Qwen3-4B',
  modules: Array.from({ length: 36 }, (_, layer) => [
    module(layer, 'self_attn.q_proj', 2560, 4096),
    module(layer, 'self_attn.k_proj', 2560, 1024),
    module(layer, 'self_attn.v_proj', 2560, 1024),
    module(layer, 'self_attn.o_proj', 4096, 2560),
    module(layer, 'mlp.gate_proj', 2560, 9728),
    module(layer, 'mlp.up_proj', 2560, 9728),
    module(layer, 'mlp.down_proj', 9728, 2560),
  ]).flat(),
  vocabularySize: 151_936,
};
const NANO_AIM_SECONDS = 0.1;
const LARGE_AIM_SECONDS = 0.5;

const signal = new AbortController().signal;
const { values: flags } = parseArgs({
  options: { runs: { type: 'string', default: '9' }, url: { type: 'string' }, json: { type: 'boolean' } },
});
const runs = Number(flags.runs);
if (!Number.isInteger(runs) || runs < 1) throw new RangeError(`--runs must be a whole number of at least 1, got ${flags.runs}.`);

report([await nano(), ...(await large('F32')), ...(await large('BF16'))]);

function module(layer: number, name: string, inFeatures: number, outFeatures: number) {
  return { path: `model.layers.${layer}.${name}`, inFeatures, outFeatures };
}

/** Consecutive publishes without the load time, each of a different adapter. */
async function nano(): Promise<Measurement> {
  await using server = flags.url === undefined ? await loraServer() : null;
  using run = new PublisherRun({ url: flags.url ?? server!.url, baseModel: 'nano-base' });
  await using opened = run.publisher();
  const probe = await run.probe('nano-base');
  const pairs: Pair[] = [];
  // The first one warms up.
  for (let version = 1; version <= runs + 1; version++) {
    const manifest = run.adapter({ seed: version });
    const startMs = performance.now();
    const result = await opened.publish({ version, manifest, probe }, signal);
    const seconds = (performance.now() - startMs) / 1000;
    if (!result.ok) throw result.reason;
    if (version > 1) pairs.push({ ours: seconds - result.report.loadSeconds, peer: NANO_AIM_SECONDS });
    await opened.publisher.retire(version, signal);
  }
  const where = flags.url === undefined ? 'loopback server' : 'real server';
  return measurement({ what: `publish without load, nano, ${where}`, unit: 's', against: 'the aim', bar: 1 }, pairs);
}

async function large(dtype: 'F32' | 'BF16'): Promise<Measurement[]> {
  const folder = mkdtempSync(join(tmpdir(), 'vf-publish-'));
  try {
    const first = writeAdapter(join(folder, 'first'), { adapter: QWEN3_4B, b: 0.01, dtype });
    const bytes = readFileSync(join(first.directory, 'adapter_model.safetensors'));
    const whole: Pair[] = [];
    const busy: Pair[] = [];
    const checks: Pair[] = [];
    for (let n = 0; n <= runs; n++) {
      const directory = join(folder, `a${n}`);
      const cpu = process.cpuUsage();
      const saveMs = performance.now();
      const manifest = await save(directory, bytes);
      const checkMs = performance.now();
      await checkAdapter(manifest, QWEN3_4B, signal);
      const readMs = performance.now();
      const { user, system } = process.cpuUsage(cpu);
      readFileSync(join(directory, 'adapter_model.safetensors'));
      const endMs = performance.now();
      rmSync(directory, { recursive: true });
      if (n === 0) continue;
      busy.push({ ours: (user + system) / 1e6, peer: LARGE_AIM_SECONDS });
      whole.push({ ours: (readMs - saveMs) / 1000, peer: LARGE_AIM_SECONDS });
      checks.push({ ours: (readMs - checkMs) / 1000, peer: (endMs - readMs) / 1000 });
    }
    const about = `4B rank 16, ${dtype}, ${(bytes.length / 1e6).toFixed(0)} MB`;
    return [
      measurement({ what: `save and check, ${about}`, unit: 's', against: 'the aim', bar: 1 }, whole),
      measurement({ what: `the same, CPU time, ${about}`, unit: 's', against: 'the aim', bar: null }, busy),
      measurement({ what: `check alone, ${about}`, unit: 's', against: 'reading the file', bar: null }, checks),
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Saves as a backend does: complete and durable, or not at all. */
async function save(directory: string, weights: Buffer): Promise<AdapterFiles> {
  const unfinished = `${directory}.unfinished`;
  await mkdir(unfinished);
  const files = { 'adapter_config.json': Buffer.from(JSON.stringify(peftConfig(QWEN3_4B))), 'adapter_model.safetensors': weights };
  for (const [name, bytes] of Object.entries(files)) {
    await using file = await open(join(unfinished, name), 'wx');
    await file.writeFile(bytes);
    await file.sync();
  }
  await rename(unfinished, directory);
  const listed = Object.entries(files).map(([name, bytes]) => ({
    name,
    bytes: bytes.length,
    sha256: createHash('sha256').update(bytes).digest('hex'),
  }));
  return { kind: 'files', directory, rank: QWEN3_4B.rank, alpha: QWEN3_4B.alpha, files: listed };
}
