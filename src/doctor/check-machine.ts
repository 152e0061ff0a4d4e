/** Checks that need no Python and no network: Node, memory, disk, GPUs. */
import { constants, existsSync, statSync } from 'node:fs';
import { access, statfs } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { dirname, resolve } from 'node:path';
import type { GpuCard } from '../launch/gpu-cards.ts';
import type { DiskEstimate } from './estimate-disk.ts';
import { bytesText } from '../reports/text/number-text.ts';
import { type Finding, missing, ok, skipped, warning } from '../sessions/finding.ts';

/** The `engines` of package.json. */
const NODE = [22, 12] as const;
/** A training process with its data needs this much, for any model. */
const LEAST_MEMORY = 2 * 2 ** 30;
/** The files of a run before its first rollout, with room to spare. */
const LEAST_RESULTS = 2 ** 20;

export function checkNode(version: string): Finding {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const isNew = major > NODE[0] || (major === NODE[0] && minor >= NODE[1]);
  return isNew
    ? ok('node', version)
    : missing('node', `${version}; vf-search needs ${NODE.join('.')} or newer`, 'install a newer Node: https://nodejs.org');
}

/** `modelBytes`: size of the base's files, null if they are not here. `copies`: local processes that load the base into main memory. */
export function checkMemory(modelBytes: number | null, copies: number): Finding {
  const [free, total] = [process.availableMemory(), totalmem()];
  const needed = LEAST_MEMORY + (modelBytes ?? 0) * copies;
  const text = `${bytesText(free)} free of ${bytesText(total)}`;
  if (free >= needed) return ok('memory', text);
  const what = modelBytes === null ? 'most runs' : `${copies === 1 ? 'one copy' : `${copies} copies`} of the model and the run itself`;
  return warning('memory', `${text}; ${what} need about ${bytesText(needed)}`, 'end other programs, or use a smaller model');
}

/** @param who needs it: `the run needs` */
export async function checkDisk(outputDir: string, estimate: DiskEstimate | null, who = 'the run needs'): Promise<Finding> {
  const place = await placeOf(outputDir);
  if ('problem' in place) return place.problem;
  const text = `${bytesText(place.free)} free for ${outputDir}`;
  if (estimate === null) return skipped('disk', `${text}; what a run needs is known only with a configuration whose model is on this machine`);
  const { adapterBytes, checkpointBytes, rolloutBytes, totalBytes } = estimate;
  const parts = `checkpoints ${bytesText(checkpointBytes)}, adapters ${bytesText(adapterBytes)}, rollouts at most ${bytesText(rolloutBytes)}`;
  const whole = `${text}; ${who} about ${bytesText(totalBytes)} (${parts})`;
  if (place.free >= totalBytes) return ok('disk', whole);
  const remedy = `free some space, change output_dir, or lower ${estimate.lower}`;
  // How long the rollouts will be is not known.
  return (place.free < checkpointBytes + adapterBytes ? missing : warning)('disk', whole, remedy);
}

/** `bytes`: what the results of an evaluation take at most. */
export async function checkResultsDisk(outputDir: string, bytes: number): Promise<Finding> {
  const place = await placeOf(outputDir);
  if ('problem' in place) return place.problem;
  const text = `${bytesText(place.free)} free for ${outputDir}; the results take at most ${bytesText(bytes)}`;
  if (place.free >= bytes) return ok('disk', text);
  return (place.free < LEAST_RESULTS ? missing : warning)('disk', text, 'free some space, or name another folder');
}

/** Free bytes of the folder, or of the one above it that exists, in which this user must be able to make folders. */
async function placeOf(outputDir: string): Promise<{ readonly free: number } | { readonly problem: Finding }> {
  let folder = resolve(outputDir);
  while (!existsSync(folder) && folder !== dirname(folder)) folder = dirname(folder);
  const refused = (why: string) => ({ problem: missing('disk', `${why}, so nothing can be written to ${outputDir}`, 'name another folder') });
  if (!statSync(folder).isDirectory()) return refused(`${folder} is not a folder`);
  try {
    await access(folder, constants.W_OK | constants.X_OK);
  } catch {
    return refused(`${folder} may not be written to`);
  }
  const { bavail, bsize } = await statfs(folder);
  return { free: bavail * bsize };
}

/** `cards`: null without nvidia-smi. */
export function checkNvidia(cards: readonly GpuCard[] | null): Finding {
  if (cards === null) return skipped('nvidia-smi', 'not found: no NVIDIA GPU, or no driver');
  if (cards.length === 0) return skipped('nvidia-smi', 'lists no GPU with a known memory');
  const gib = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
  const texts = cards.map(({ name, usedBytes, totalBytes, driver }) => `${name}, ${gib(usedBytes)} of ${gib(totalBytes)} used, driver ${driver}`);
  return ok('nvidia-smi', texts.join('; '));
}
