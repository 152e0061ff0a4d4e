/** PEFT directories for tests: seeded numbers for every tensor that a description asks for, and ways to get each of them wrong. */
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Random } from '../../../src/core/random.ts';
import type { AdapterDescription, AdapterFiles } from '../../../src/trainer/gradient-backend.ts';

const HIDDEN = 128;
const LINEARS: readonly (readonly [string, number, number])[] = [
  ['self_attn.q_proj', HIDDEN, 128],
  ['self_attn.k_proj', HIDDEN, 64],
  ['self_attn.v_proj', HIDDEN, 64],
  ['self_attn.o_proj', 128, HIDDEN],
  ['mlp.gate_proj', HIDDEN, 384],
  ['mlp.up_proj', HIDDEN, 384],
  ['mlp.down_proj', 384, HIDDEN],
];

/** All linear layers of test/models/nano-base: 4 layers, width 128, 4 heads of 32, 2 of them for keys and values, MLP of 384. */
export const NANO_ADAPTER: AdapterDescription = {
  rank: 4,
  alpha: 8,
  baseModel: 'nano-base',
  modules: [0, 1, 2, 3].flatMap((layer) =>
    LINEARS.map(([name, inFeatures, outFeatures]) => ({ path: `model.layers.${layer}.${name}`, inFeatures, outFeatures })),
  ),
  vocabularySize: 1600,
};

export interface WrittenTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: Buffer;
}

export interface AdapterWish {
  /** @default NANO_ADAPTER */
  readonly adapter?: AdapterDescription;
  /** @default 1 */
  readonly seed?: number;
  /** Standard size of B's numbers; 0 makes the adapter do nothing. @default 0 */
  readonly b?: number;
  /** @default F32 */
  readonly dtype?: 'F32' | 'BF16' | 'F16';
  /** Changes the tensors before they are written. */
  readonly edit?: (tensors: Map<string, WrittenTensor>) => void;
  /** Set over adapter_config.json. */
  readonly config?: Readonly<Record<string, unknown>>;
}

/** Writes a directory, which must not exist. */
export function writeAdapter(directory: string, wish: AdapterWish = {}): AdapterFiles {
  const { adapter = NANO_ADAPTER, config = {} } = wish;
  const tensors = adapterTensors(wish);
  wish.edit?.(tensors);
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'adapter_config.json'), JSON.stringify({ ...peftConfig(adapter), ...config }));
  writeFileSync(join(directory, 'adapter_model.safetensors'), safetensorsFile(tensors));
  return manifestOf(directory, adapter);
}

/** What adapter_config.json holds. */
export function peftConfig(adapter: AdapterDescription): Record<string, unknown> {
  return {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: adapter.baseModel,
    r: adapter.rank,
    lora_alpha: adapter.alpha,
    lora_dropout: 0,
    bias: 'none',
    target_modules: [...new Set(adapter.modules.map(({ path }) => path.split('.').at(-1)!))],
  };
}

export function manifestOf(directory: string, { rank, alpha }: AdapterDescription = NANO_ADAPTER): AdapterFiles {
  const files = ['adapter_config.json', 'adapter_model.safetensors'].map((name) => {
    const bytes = readFileSync(join(directory, name));
    return { name, bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
  });
  return { kind: 'files', directory, rank, alpha, files };
}

function adapterTensors({ adapter = NANO_ADAPTER, seed = 1, b = 0, dtype = 'F32' }: AdapterWish): Map<string, WrittenTensor> {
  const random = Random.fromSeed(seed);
  const tensors = new Map<string, WrittenTensor>();
  for (const { path, inFeatures, outFeatures } of adapter.modules) {
    const numbers = (count: number, size: number) => Float32Array.from({ length: count }, () => (random.float() - 0.5) * 2 * size);
    const a = numbers(adapter.rank * inFeatures, 1 / Math.sqrt(inFeatures));
    tensors.set(`base_model.model.${path}.lora_A.weight`, tensor([adapter.rank, inFeatures], a, dtype));
    tensors.set(`base_model.model.${path}.lora_B.weight`, tensor([outFeatures, adapter.rank], numbers(outFeatures * adapter.rank, b), dtype));
  }
  return tensors;
}

export function tensor(shape: readonly number[], values: Float32Array, dtype: 'F32' | 'BF16' | 'F16' = 'F32'): WrittenTensor {
  if (dtype === 'F32') return { dtype, shape, bytes: Buffer.from(values.buffer, values.byteOffset, values.byteLength) };
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const half = dtype === 'BF16' ? Uint16Array.from(bits, (x) => x >>> 16) : Uint16Array.from(bits, halfBits);
  return { dtype, shape, bytes: Buffer.from(half.buffer) };
}

/** Rounded towards zero; numbers below float16's normal ones become 0. */
function halfBits(bits: number): number {
  const sign = (bits >>> 16) & 0x8000;
  const exponent = (bits >>> 23) & 0xff;
  if (exponent === 0xff) return sign | 0x7c00 | ((bits & 0x7fffff) === 0 ? 0 : 0x200);
  if (exponent < 113) return sign;
  if (exponent > 142) return sign | 0x7c00;
  return sign | ((exponent - 112) << 10) | ((bits >>> 13) & 0x3ff);
}

export function safetensorsFile(tensors: ReadonlyMap<string, WrittenTensor>): Buffer {
  let at = 0;
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  for (const [name, { dtype, shape, bytes }] of tensors) header[name] = { dtype, shape, data_offsets: [at, (at += bytes.length)] };
  return Buffer.concat([headerBytes(header), ...[...tensors.values()].map(({ bytes }) => bytes)]);
}

/** Length and header, padded with spaces to a multiple of 8 as the format's own writer does. */
export function headerBytes(header: unknown): Buffer {
  const json = JSON.stringify(header);
  const text = Buffer.from(json.padEnd(Math.ceil(Buffer.byteLength(json) / 8) * 8));
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([prefix, text]);
}

export function temporaryFolder(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'vf-publisher-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}
