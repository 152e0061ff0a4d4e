/**
 * Files with everything that a later run needs to continue bit for bit: state.json says what the state belongs to, state.safetensors holds the adapter and Adam's moments.
 * There is no random state, because the engine draws no random numbers while training.
 */
import { join } from 'node:path';
import { GradientError } from '../../../core/errors.ts';
import { readJson } from '../../../core/read-json.ts';
import { writeDirectory } from '../../../engine/adapters/write-directory.ts';
import type { AdapterTensors, EngineAdapterState } from '../../../engine/training/trainer-types.ts';
import { readRegularFile } from '../../../files/regular-file.ts';
import { openSafetensors } from '../../../files/open-safetensors.ts';
import { readTensorBytes, SafetensorsError, safetensorsHeader, type TensorEntry } from '../../../files/safetensors.ts';
import { schemaCheck, schemaProblem } from '../../../schemas/schema-check.ts';
import { systemText } from '../../../files/system-text.ts';

const FORMAT = 'vf-search embedded state 1';
const STATE = 'state.json';
const TENSORS = 'state.safetensors';

/** The owner of a state, as recorded in state.json. */
export interface StateOwner {
  /** Fingerprint of the base. */
  readonly base: string;
  readonly rank: number;
  readonly alpha: number;
  /** [inputs, outputs] by path. */
  readonly modules: Readonly<Record<string, readonly [number, number]>>;
  readonly threads: number;
  /** The engine's description of itself, with the build of its kernels. */
  readonly engine: string;
  /** The machine's architecture. */
  readonly architecture: string;
}

/** A state that differs in one of these is refused. */
const SAME = ['base', 'rank', 'alpha', 'modules'] as const satisfies readonly (keyof StateOwner)[];
/** A difference in these is reported, because it may change the last bits. */
const TOLD = ['threads', 'engine', 'architecture'] as const satisfies readonly (keyof StateOwner)[];

interface Header extends StateOwner {
  readonly step: number;
}

const headerSchema = {
  type: 'object',
  required: ['format', 'step', ...SAME],
  properties: { format: { const: FORMAT }, step: { type: 'integer', minimum: 0 } },
};

/** Like `writeDirectory`: complete and durable once resolved, absent if rejected. */
export async function saveState(directory: string, owner: StateOwner, state: EngineAdapterState): Promise<void> {
  const tensors = Array.from(namedTensors(state));
  const header = Buffer.from(`${JSON.stringify({ format: FORMAT, step: state.step, ...owner }, null, 2)}\n`);
  await writeDirectory(directory, [
    { name: STATE, parts: [header] },
    { name: TENSORS, parts: [safetensorsHeader(tensors), ...tensors.map(({ values }) => asBytes(values))] },
  ]);
}

/** Returns the state, and the differences from the saving environment that may change the last bits. Rejects with GradientError `bad_input`, or `not_finite` for a state with NaN or an infinity. */
export async function loadState(
  directory: string,
  owner: StateOwner,
): Promise<{ readonly state: EngineAdapterState; readonly differences: readonly string[] }> {
  const header = await readHeader(directory);
  for (const key of SAME) {
    if (canonical(header[key]) === canonical(owner[key])) continue;
    throw badInput(`The state in ${directory} has ${key} ${short(header[key])}, but this run has ${short(owner[key])}`);
  }
  const state = emptyState(owner, header.step);
  await fillTensors(join(directory, TENSORS), Array.from(namedTensors(state)));
  // The engine's description includes its threads.
  const changed = TOLD.filter((key) => header[key] !== owner[key] && (key !== 'engine' || header.threads === owner.threads));
  return { state, differences: changed.map((key) => `${key} ${header[key]} when the state was saved, ${owner[key]} now`) };
}

interface NamedTensor {
  readonly name: string;
  readonly shape: readonly [number, number];
  readonly values: Float32Array;
}

function* namedTensors({ tensors, firstMoments, secondMoments }: EngineAdapterState): Generator<NamedTensor> {
  for (const [i, tensor] of tensors.entries()) {
    const { path, inputs, outputs } = tensor;
    const rank = tensor.a.length / inputs;
    const parts = { value: tensor, exp_avg: firstMoments[i]!, exp_avg_sq: secondMoments[i]! };
    for (const [part, { a, b }] of Object.entries(parts)) {
      yield { name: `${path}.lora_A.${part}`, shape: [rank, inputs], values: a };
      yield { name: `${path}.lora_B.${part}`, shape: [outputs, rank], values: b };
    }
  }
}

function emptyState({ rank, modules }: StateOwner, step: number): EngineAdapterState {
  const zeros = ([inputs, outputs]: readonly [number, number]) => ({ a: new Float32Array(rank * inputs), b: new Float32Array(outputs * rank) });
  const sizes = Object.values(modules);
  const tensors = Object.entries(modules).map(([path, size]): AdapterTensors => ({ path, inputs: size[0], outputs: size[1], ...zeros(size) }));
  return { step, tensors, firstMoments: sizes.map(zeros), secondMoments: sizes.map(zeros) };
}

async function readHeader(directory: string): Promise<Header> {
  const path = join(directory, STATE);
  const text = await readRegularFile(path).catch((cause: unknown) => {
    throw badInput(`No ${STATE} in ${directory}; name a directory with a saved state`, cause);
  });
  let header: unknown;
  try {
    header = readJson(text);
  } catch (cause) {
    throw badInput(`${path} is not valid JSON: ${(cause as Error).message}`, cause);
  }
  const check = schemaCheck(headerSchema);
  if (check(header)) return header as unknown as Header;
  throw badInput(`${path} is not a state of the embedded engine: ${schemaProblem(check, 'it')}`);
}

/** Reads the file into the values of `tensors`. It must hold exactly these tensors, with these shapes and finite numbers. */
async function fillTensors(path: string, tensors: readonly NamedTensor[]): Promise<void> {
  try {
    const { file, header } = await openSafetensors(path);
    await using _ = file;
    const found = new Map(header.tensors.map((entry) => [entry.name, entry]));
    checkNames(found, tensors);
    for (const { name, shape, values } of tensors) {
      const { dtype, shape: got, start } = found.get(name)!;
      if (dtype !== 'F32' || canonical(got) !== canonical(shape))
        throw badInput(`Expected ${name} to be F32 ${canonical(shape)}, got ${dtype} ${canonical(got)}`);
      await readTensorBytes(file, asBytes(values), start);
      if (!values.every(Number.isFinite)) throw new GradientError(`Tensor ${name} of ${path} holds NaN or an infinity`, { code: 'not_finite' });
    }
  } catch (cause) {
    if (cause instanceof GradientError) throw cause;
    const what = cause instanceof SafetensorsError ? cause.message : `it cannot be read: ${systemText(cause)}`;
    throw badInput(`${path} is not a complete safetensors file: ${what}`, cause);
  }
}

function checkNames(found: ReadonlyMap<string, TensorEntry>, tensors: readonly NamedTensor[]): void {
  const missing = tensors.find(({ name }) => !found.has(name));
  if (missing) throw badInput(`Tensors do not match this adapter's ${tensors.length} matrices: ${missing.name} is missing`);
  if (found.size > tensors.length) throw badInput(`Tensors do not match this adapter's ${tensors.length} matrices: there are ${found.size}`);
}

function asBytes(values: Float32Array): Buffer {
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength);
}

const canonical = (value: unknown): string => JSON.stringify(value);

function short(value: unknown): string {
  const text = canonical(value);
  return text.length <= 80 ? text : `${text.slice(0, 77)}...`;
}

function badInput(message: string, cause?: unknown): GradientError {
  return new GradientError(message.replaceAll('\n', ' '), { code: 'bad_input', cause });
}
