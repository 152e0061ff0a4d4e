/** Brings an adapter that a training service keeps to this machine, as a PEFT directory. */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { unpackTar } from 'modern-tar';
import { thrownText, ConfigError } from '../../core/errors.ts';
import { readJson } from '../../core/read-json.ts';
import { writeDirectory } from '../../engine/adapters/write-directory.ts';
import { EngineInputError } from '../../engine/engine-errors.ts';
import { ADAPTER_FILES } from '../../files/written-files.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import { ServiceConnection } from '../../tinker/service/service-connection.ts';
import { TinkerError } from '../../tinker/service/tinker-error.ts';
import { readReference } from '../../trainer/gradients/tinker/reference-files.ts';
import { Checkpoints } from '../../trainer/records/checkpoints.ts';
import { TRAINING_FILES } from '../../trainer/training-session.ts';

export interface ExportAdapterOptions {
  /** The folder of a training run, or that of an adapter in it (`best/adapter`). */
  readonly directory: string;
  /** Must not exist. */
  readonly output: string;
  readonly apiKey: string | null;
  /** Takes a line when the service makes the export wait. */
  readonly onNotice?: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Nothing that a run trains is larger. */
const MOST_BYTES = 2 ** 33;
const unzip = promisify(gunzip);

/** Resolves with the adapter's path at the service. Throws ConfigError if the folder names none, the service does not have it any more, or `output` exists. */
export async function exportAdapter({ directory, output, apiKey, onNotice, signal }: ExportAdapterOptions): Promise<string> {
  const folder = await adapterFolder(directory);
  const reference = await readReference(folder).catch((cause: unknown) => {
    throw new ConfigError(`${thrownText(cause)}. An adapter that was trained on this machine is in its folder already`, { cause });
  });
  const { path, service, rank, alpha, base_model: baseModel } = reference;
  let files: ReadonlyMap<string, Uint8Array>;
  try {
    await using connection = await ServiceConnection.open(
      { baseUrl: service, apiKey: apiKey ?? 'none', ...(onNotice === undefined ? {} : { onNotice }) },
      signal,
    );
    files = await unpacked(await connection.archive(path, signal));
  } catch (cause) {
    if (!(cause instanceof TinkerError)) throw cause;
    throw new ConfigError(`The training service gives no archive of ${path}: ${cause.message}`, { cause });
  }
  const [config, weights] = ADAPTER_FILES.map((name) => files.get(name));
  if (config === undefined || weights === undefined)
    throw new ConfigError(`The archive of ${path} lacks ${ADAPTER_FILES.join(' or ')}; it holds ${[...files.keys()].join(', ') || 'nothing'}`);
  const whole = wholeConfig(config, weights, { rank, alpha, baseModel });
  const written = [
    { name: ADAPTER_FILES[0]!, parts: [whole] },
    { name: ADAPTER_FILES[1]!, parts: [weights] },
  ];
  await writeDirectory(resolve(output), written).catch((cause: unknown) => {
    throw cause instanceof EngineInputError ? new ConfigError(cause.message, { cause }) : cause;
  });
  return path;
}

/** The newest checkpoint's of a run; the folder itself if it is an adapter's. */
async function adapterFolder(directory: string): Promise<string> {
  const checkpoints = join(directory, TRAINING_FILES.checkpoints);
  if (!existsSync(checkpoints)) return directory;
  const newest = await new Checkpoints(checkpoints).latest();
  if (newest === null) throw new ConfigError(`${directory} has no checkpoint yet, so it has no adapter`);
  return newest.adapterDirectory;
}

/** By their last names: some servers put them at the root with a slash. */
async function unpacked(archive: Buffer): Promise<ReadonlyMap<string, Uint8Array>> {
  try {
    const entries = await unpackTar(new Uint8Array(await unzip(archive, { maxOutputLength: MOST_BYTES })));
    return new Map(entries.flatMap(({ header, data }) => (data === undefined ? [] : [[header.name.split('/').at(-1)!, data] as const])));
  } catch (cause) {
    throw new TinkerError(`it is no .tar.gz: ${thrownText(cause)}`, { cause });
  }
}

/** With what some servers leave empty, without which no loader takes it. */
function wholeConfig(
  config: Uint8Array,
  weights: Uint8Array,
  { rank, alpha, baseModel }: { readonly rank: number; readonly alpha: number; readonly baseModel: string },
): Buffer {
  const given = fieldsOf(readJson(Buffer.from(config).toString('utf8')));
  const targets = given['target_modules'] ?? targetsOf(weights);
  const filled = {
    ...given,
    peft_type: 'LORA',
    task_type: given['task_type'] ?? 'CAUSAL_LM',
    base_model_name_or_path: given['base_model_name_or_path'] ?? baseModel,
    r: given['r'] ?? rank,
    lora_alpha: given['lora_alpha'] ?? alpha,
    target_modules: targets,
  };
  return Buffer.from(`${JSON.stringify(filled, null, 2)}\n`);
}

/** The last names of the layers in a safetensors file. */
function targetsOf(weights: Uint8Array): string[] {
  const bytes = Buffer.from(weights.buffer, weights.byteOffset, weights.byteLength);
  const header = fieldsOf(readJson(bytes.subarray(8, 8 + Number(bytes.readBigUInt64LE(0))).toString('utf8')));
  return [...new Set(Object.keys(header).flatMap((name) => targetOf(name) ?? []))];
}

/** The part of a tensor's name before `lora_A` or `lora_B`. */
function targetOf(name: string): string | undefined {
  const parts = name.split('.');
  return parts[parts.findIndex((part) => part === 'lora_A' || part === 'lora_B') - 1];
}
