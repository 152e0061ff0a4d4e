/** The GPUs of this machine, as nvidia-smi and CUDA_VISIBLE_DEVICES list them, and which of them each launched server gets. */
import { execFile } from 'node:child_process';
import { ConfigError } from '../core/errors.ts';

export interface GpuCard {
  /** nvidia-smi's index. */
  readonly index: number;
  readonly uuid: string;
  readonly name: string;
  readonly totalBytes: number;
  readonly usedBytes: number;
  readonly driver: string;
}

export interface ReadCardsOptions {
  /** Its PATH finds nvidia-smi. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

const TIMEOUT_MS = 20_000;
const MIB = 2 ** 20;

/** Null if there is no nvidia-smi or it fails; empty if it lists no cards. */
export async function readGpuCards(options: ReadCardsOptions): Promise<readonly GpuCard[] | null> {
  return (await listedCards('index,uuid,name,memory.used,memory.total,driver_version', options))?.flatMap(cardOf) ?? null;
}

/** nvidia-smi's lines, one per card; null if there is no nvidia-smi or it fails. */
function listedCards(fields: string, { env, signal }: ReadCardsOptions): Promise<readonly string[] | null> {
  const words = [`--query-gpu=${fields}`, '--format=csv,noheader,nounits'];
  return new Promise((done) => {
    execFile('nvidia-smi', words, { env: { ...env }, signal, timeout: TIMEOUT_MS }, (error, stdout) =>
      done(error === null ? namesIn(stdout, '\n') : null),
    );
  });
}

function namesIn(text: string, separator: string): string[] {
  return text
    .split(separator)
    .map((name) => name.trim())
    .filter((name) => name !== '');
}

/**
 * Names of the GPUs that may be used, as CUDA_VISIBLE_DEVICES lists them, or those that nvidia-smi lists. Null if neither says anything, as on a machine
 * without NVIDIA's driver.
 */
export async function visibleDevices(options: ReadCardsOptions): Promise<readonly string[] | null> {
  const listed = options.env['CUDA_VISIBLE_DEVICES'];
  return listed === undefined ? await listedCards('index', options) : namesIn(listed, ',');
}

function cardOf(line: string): GpuCard[] {
  const [index, uuid, name, used, total, driver] = line.split(',').map((part) => part.trim());
  const card = { index: Number(index), usedBytes: Number(used) * MIB, totalBytes: Number(total) * MIB };
  // Skips a card whose memory the driver does not report, such as one that shares the machine's.
  if (!Object.values(card).every(Number.isFinite) || uuid === undefined || name === undefined) return [];
  return [{ ...card, uuid, name, driver: driver ?? 'unknown' }];
}

/** The cards that a process sees as cuda:0, cuda:1, ..., under its CUDA_VISIBLE_DEVICES. */
export function visibleCards(cards: readonly GpuCard[], visible: string | undefined): readonly GpuCard[] {
  if (visible === undefined) return cards;
  return namesIn(visible, ',').flatMap((word) => cards.find(({ index, uuid }) => String(index) === word || uuid.startsWith(word)) ?? []);
}

/** The card of a torch device: `cuda`, `cuda:1`; null for any other device, and for a card that is not there. */
export function cardOfDevice(device: string, visible: readonly GpuCard[]): GpuCard | null {
  const place = /^cuda(?::(\d+))?$/.exec(device);
  return place === null ? null : (visible[Number(place[1] ?? 0)] ?? null);
}

export interface DeviceNeeds {
  /** Number of servers. */
  readonly replicas: number;
  /** Number of GPUs of each server. */
  readonly tensorParallelSize: number;
}

/**
 * The GPUs of each server, in order and none twice. Null for a server whose GPUs vLLM chooses: a single server on one GPU, and all servers if no GPU is known.
 * Throws ConfigError if there are too few.
 */
export function shareDevices(
  { replicas, tensorParallelSize }: DeviceNeeds,
  visible: readonly string[] | null,
): readonly (readonly string[] | null)[] {
  const needed = replicas * tensorParallelSize;
  if (visible === null || needed === 1) return Array.from({ length: replicas }, () => null);
  if (visible.length < needed)
    throw new ConfigError(
      `[policy.launch] needs ${needed} GPUs (replicas ${replicas} × tensor_parallel_size ${tensorParallelSize}), but ${visible.length === 0 ? 'none is' : `only ${visible.length} are`} visible${visible.length === 0 ? '' : ` (${visible.join(',')})`}. Lower one of the two, or list more in CUDA_VISIBLE_DEVICES.`,
    );
  return Array.from({ length: replicas }, (_, i) => visible.slice(i * tensorParallelSize, (i + 1) * tensorParallelSize));
}
