/**
 * A step of tinker-cookbook's rl_loop against `vf-serve tinker`, next to the same work in this process: 8 prompts of the recipe × 8 samples of at most 64 tokens from new
 * weights, a pass with importance sampling over them, and a step of Adam. Needs scripts/interop/install.sh tinker, and a build.
 *
 *     npm run bench -- tinker-step [--steps 8]
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { EmbeddedEngine } from '../../src/engine/embedded-engine.ts';
import { EmbeddedBackend } from '../../src/trainer/gradients/embedded/embedded-backend.ts';

const ROOT = join(import.meta.dirname, '../..');
const NANO = join(ROOT, 'models/nano-base');
const PYTHON = join(homedir(), '.cache/vf-search/interop/tinker/venv/bin/python');
const { values } = parseArgs({ options: { steps: { type: 'string', default: '8' } } });
const [SAMPLES, TOKENS] = [8, 64];
const folder = mkdtempSync(join(tmpdir(), 'vf-bench-tinker-'));
const { signal } = new AbortController();

interface Loop {
  readonly seconds: readonly number[];
  readonly prompts: readonly (readonly number[])[];
}

async function recipe(): Promise<Loop> {
  const server = spawn(process.execPath, [join(ROOT, 'bin/vf-serve.js'), 'tinker', '--port', '0', '--state', join(folder, 'state')], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [url] = (await once(createInterface({ input: server.stdout }), 'line')) as [string];
  const env = { ...process.env, TINKER_API_KEY: 'tml-bench', HF_HUB_OFFLINE: '1' };
  const args = ['-W', 'ignore', join(import.meta.dirname, 'tinker_rl_loop.py'), url, NANO, join(folder, 'log'), values.steps];
  const printed = execFileSync(PYTHON, args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], maxBuffer: 2 ** 26 });
  server.kill();
  return JSON.parse(printed.trimEnd().split('\n').at(-1)!) as Loop;
}

/** The seconds of each step. */
async function inProcess(prompts: Loop['prompts']): Promise<readonly number[]> {
  const engine = await EmbeddedEngine.open({ modelPath: NANO, signal });
  const targets = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];
  const backend = await EmbeddedBackend.on(engine, { adapter: { rank: 16, alpha: 32, targets, seed: 0, initial: null }, signal });
  const seconds: number[] = [];
  for (let step = 0; step * SAMPLES < prompts.length; step++) {
    const start = performance.now();
    const [name, directory] = [`step-${step}`, join(folder, `adapter-${step}`)];
    await backend.saveAdapter(directory);
    await engine.loadAdapter({ name, directory, signal });
    const asked = prompts.slice(step * SAMPLES, (step + 1) * SAMPLES).flatMap((ids) => Array.from({ length: SAMPLES }, () => Int32Array.from(ids)));
    const sampled = await Promise.all(asked.map((prompt) => engine.generate(request(prompt, name))));
    const sequences = sampled.map(({ ids, logProbs }, i) => ({ prompt: asked[i]!, ids, logProbs }));
    await train(backend, sequences);
    seconds.push((performance.now() - start) / 1000);
  }
  await backend.close();
  await engine.close();
  return seconds;
}

function request(prompt: Int32Array, adapter: string) {
  const stop = { strings: ['\n\nUser:'], includeString: true, tokenIds: [], ignoreEnd: false, minTokens: 0 };
  const sampling = { temperature: 1, topP: 1, topK: -1, minP: 0, seed: null };
  const rest = { skipSpecialTokens: false, logProbs: 0, promptLogProbs: null, logProbsMode: 'raw', allowedTokenIds: null, cacheSalt: null } as const;
  return { prompt, adapter, maxTokens: TOKENS, sampling, stop, ...rest, signal };
}

interface Sequence {
  readonly prompt: Int32Array;
  readonly ids: Int32Array;
  readonly logProbs: Float32Array;
}

/** In batches that fit, as the trainer's loop packs them: only sampled tokens are judged. */
async function train(backend: EmbeddedBackend, sequences: readonly Sequence[]): Promise<void> {
  for (let from = 0; from < sequences.length;) {
    let [to, tokens] = [from, 0];
    for (; to < sequences.length; to++) {
      tokens += sequences[to]!.prompt.length + sequences[to]!.ids.length;
      if (to > from && tokens > backend.capabilities.maxTokens) break;
    }
    const [ids, offsets, targets, old] = [[] as number[], [0], [] as number[], [] as number[]];
    for (const { prompt, ids: own, logProbs } of sequences.slice(from, to)) {
      const start = ids.length + prompt.length;
      ids.push(...prompt, ...own);
      for (const [t, logProb] of logProbs.entries()) {
        targets.push(start + t);
        old.push(logProb);
      }
      offsets.push(ids.length);
    }
    const batch = { ids: Int32Array.from(ids), offsets: Int32Array.from(offsets), targets: Int32Array.from(targets), temperature: 1 };
    const { batchId, logProbs } = await backend.forward(batch, { retain: true, adapter: 'on', signal });
    await backend.backward(batchId, { dLogProbs: logProbs.map((logProb, t) => -Math.exp(logProb - old[t]!) * (t % 2 === 0 ? 0.5 : -0.5)) });
    from = to;
  }
  await backend.optimStep({ learningRate: 4e-5, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, maxGradNorm: null });
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)]!;
}

const { seconds, prompts } = await recipe();
const own = await inProcess(prompts);
rmSync(folder, { recursive: true });
// The first step of each compiles and fills caches.
const [theirs, ours] = [median(seconds.slice(1)), median(own.slice(1))];
process.stdout.write(
  `rl_loop on vf-serve tinker ${theirs.toFixed(2)} s a step, the same work in this process ${ours.toFixed(2)} s, ratio ${(theirs / ours).toFixed(2)} (bar 1.5); prompts of ${prompts[0]!.length} tokens, ${prompts.length / SAMPLES} steps\n`,
);
