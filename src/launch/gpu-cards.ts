/** The GPUs of this machine, as nvidia-smi lists them. */
import { execFile } from 'node:child_process';

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
export async function readGpuCards({ env, signal }: ReadCardsOptions): Promise<readonly GpuCard[] | null> {
  const fields = ['--query-gpu=index,uuid,name,memory.used,memory.total,driver_version', '--format=csv,noheader,nounits'];
  const output = await new Promise<string | null>((done) => {
    execFile('nvidia-smi', fields, { env: { ...env }, signal, timeout: TIMEOUT_MS }, (error, stdout) => done(error === null ? stdout : null));
  });
  return output === null ? null : output.trim().split('\n').flatMap(cardOf);
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
  return visible
    .split(',')
    .map((word) => word.trim())
    .flatMap((word) => cards.find(({ index, uuid }) => word !== '' && (String(index) === word || uuid.startsWith(word))) ?? []);
}

/** The card of a torch device: `cuda`, `cuda:1`; null for any other device, and for a card that is not there. */
export function cardOfDevice(device: string, visible: readonly GpuCard[]): GpuCard | null {
  const place = /^cuda(?::(\d+))?$/.exec(device);
  return place === null ? null : (visible[Number(place[1] ?? 0)] ?? null);
}
