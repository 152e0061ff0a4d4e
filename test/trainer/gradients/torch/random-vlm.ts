/** A random vision-language model of about a million parameters (scripts/random-vlm), and some pictures that it can be shown. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import sharp from 'sharp';
import { RunImages } from '../../../../src/files/run-images.ts';
import type { TestedImages } from '../../../contracts/gradient-cases.ts';
import { torchPython } from './torch-python.ts';

export type VlmForm = 'qwen2_5_vl' | 'qwen3_vl';

export interface RandomVlm extends Disposable {
  readonly model: string;
  /** A run's folder of images. */
  readonly folder: string;
  readonly tested: TestedImages;
}

const SCRIPT = join(import.meta.dirname, '../../../../scripts/random-vlm/make.py');
/** Of the pictures, in tokens. Qwen2.5-VL sees windows of four by four. */
const SIZES = [
  [2, 3],
  [5, 6],
  [4, 2],
] as const;
/** Side of a token's square in pixels. */
const UNITS = { qwen2_5_vl: 28, qwen3_vl: 32 };

export async function randomVlm(form: VlmForm): Promise<RandomVlm> {
  const root = mkdtempSync(join(tmpdir(), 'vf-random-vlm-'));
  const [model, folder] = [join(root, form), join(root, 'images')];
  cpSync(madeModel(form), model, { recursive: true });
  const store = new RunImages();
  await store.keepIn(folder);
  const images = [];
  for (const [i, [rows, columns]] of SIZES.entries()) {
    const [width, height] = [columns * UNITS[form], rows * UNITS[form]];
    const bytes = await noisePng(width, height, i);
    const { sha256 } = await store.put(bytes, { mediaType: 'image/png', width, height });
    images.push({ sha256, length: rows * columns });
  }
  const { image_token_id: pad } = JSON.parse(readFileSync(join(model, 'config.json'), 'utf8')) as { image_token_id: number };
  return { model, folder, tested: { pad, images }, [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }) };
}

/** A model as the script makes it, kept for later tests: the start of Python takes seconds. */
function madeModel(form: VlmForm): string {
  const digest = createHash('sha256').update(readFileSync(SCRIPT)).update(torchPython.path!).digest('hex').slice(0, 16);
  const kept = join(tmpdir(), `vf-random-vlm-${form}-${digest}`);
  if (existsSync(kept)) return kept;
  const made = join(mkdtempSync(`${kept}-`), form);
  execFileSync(torchPython.path!, [SCRIPT, form, made], { env: { ...process.env, HF_HUB_OFFLINE: '1', OMP_NUM_THREADS: '1' }, stdio: 'ignore' });
  try {
    renameSync(made, kept);
  } catch (error) {
    // Another test was faster.
    if (!existsSync(kept)) throw error;
  }
  rmSync(join(made, '..'), { recursive: true, force: true });
  return kept;
}

/** A picture of which every pixel differs from its neighbours. */
export function noisePng(width: number, height: number, seed: number): Promise<Uint8Array> {
  const pixels = Uint8Array.from({ length: width * height * 3 }, (_, i) => (i * i * 31 + 7 * i + 101 * seed + (i >> 7) * 13) % 256);
  return sharp(pixels, { raw: { width, height, channels: 3 } })
    .png()
    .toBuffer();
}
