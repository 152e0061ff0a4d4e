// Work of bench/embedded.ts that wants a process of its own. Over the compiled package, as users have it.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const { EmbeddedEngine } = await import('../../dist/src/engine/embedded-engine.js');
const signal = new AbortController().signal;
const MODEL = 'models/nano-base';
const [what, argument] = process.argv.slice(2);

if (what === 'first-token') await firstToken();
else await memory(Number(argument));

function generate(engine, prompt, adapter, maxTokens) {
  return engine.generate({
    prompt,
    adapter,
    maxTokens,
    sampling: { temperature: 1, topP: 1, topK: -1, minP: 0, seed: null },
    stop: { strings: [], includeString: true, tokenIds: [], ignoreEnd: true, minTokens: 0 },
    skipSpecialTokens: true,
    logProbs: 0,
    promptLogProbs: null,
    logProbsMode: 'raw',
    allowedTokenIds: null,
    cacheSalt: null,
    signal,
  });
}

async function firstToken() {
  const engine = await EmbeddedEngine.open({ modelPath: MODEL, signal });
  const prompt = engine.tokenizer.encode('Answer the given question. Question: who is the mayor of a town?', { addSpecialTokens: false });
  await generate(engine, prompt, null, 1);
  // Since the process began.
  process.stdout.write(`${performance.now() / 1000}\n`);
  await engine.close();
}

async function memory(steps) {
  const { EmbeddedBackend } = await import('../../dist/src/trainer/gradients/embedded/embedded-backend.js');
  const engine = await EmbeddedEngine.open({ modelPath: MODEL, threads: 2, signal });
  const targets = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];
  const backend = await EmbeddedBackend.on(engine, { adapter: { rank: 8, alpha: 16, targets, seed: 0, initial: null }, signal });
  const folder = mkdtempSync(join(tmpdir(), 'vf-memory-'));
  const prompt = (seed) => Int32Array.from({ length: 130 }, (_, i) => (i * 37 + (i < 115 ? 0 : seed * 101)) % 1580);
  let early = 0;
  let serving = null;
  for (let step = 1; step <= steps; step++) {
    const prompts = Array.from({ length: 16 }, (_, i) => prompt(step * 4 + (i >> 2)));
    const samples = await Promise.all(prompts.map((ids) => generate(engine, ids, serving, 24)));
    const sequences = samples.map(({ ids }, i) => [...prompts[i], ...ids]);
    const offsets = [0];
    for (const { length } of sequences) offsets.push(offsets.at(-1) + length);
    const all = offsets.slice(0, -1).flatMap((start, i) => Array.from({ length: samples[i].ids.length }, (_, t) => start + 130 + t));
    const batch = { ids: Int32Array.from(sequences.flat()), offsets: Int32Array.from(offsets), targets: Int32Array.from(all), temperature: 1 };
    const { batchId } = await backend.forward(batch, { retain: true, adapter: 'on', signal });
    await backend.backward(batchId, { dLogProbs: new Float32Array(all.length).map((_, i) => Math.sin(i) / all.length) });
    await backend.optimStep({ learningRate: 1e-4, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 });
    const directory = join(folder, `v${step}`);
    await backend.saveAdapter(directory);
    await engine.loadAdapter({ name: `v${step}`, directory, signal });
    if (serving !== null) {
      engine.unloadAdapter(serving);
      rmSync(join(folder, serving), { recursive: true });
    }
    serving = `v${step}`;
    if (step === Math.ceil(steps / 10)) early = process.memoryUsage.rss();
  }
  const late = process.memoryUsage.rss();
  process.stdout.write(`${JSON.stringify({ early: early / 1e6, late: late / 1e6, peak: process.resourceUsage().maxRSS / 1e3 })}\n`);
  await backend.close();
  await engine.close();
  rmSync(folder, { recursive: true });
}
