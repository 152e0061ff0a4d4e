/**
 * Divides GPUs between vLLM and the workers: derives the worker's checkpointing and micro-batch and vLLM's share of its cards, or says which change would make the
 * run fit. Pure arithmetic over memory-estimate.ts.
 */
import type { GpuCard } from './gpu-cards.ts';
import {
  concurrentRollouts,
  cacheBytesPerToken,
  GIB,
  largestMicroBatch,
  residentBytes,
  serverFixedBytes,
  type TrainerMemory,
  trainerMemory,
} from './memory-estimate.ts';
import type { ModelShape } from './model-shape.ts';

/** Assumed length of a rollout in tokens where neither environment nor policy has a limit. */
export const ASSUMED_TOKENS = 4096;

export interface GpuNeeds {
  readonly shape: ModelShape;
  readonly rank: number;
  readonly targets: readonly string[];
  readonly bytesPerWeight: number;
  readonly checkpointing: boolean | 'auto';
  /** Wanted tokens per micro-batch of each worker. */
  readonly maxTokens: number;
  /** True if the user chose `maxTokens`, which is then never lowered. */
  readonly isMaxTokensChosen: boolean;
  /** Tokens of the longest rollout: the smallest possible micro-batch, and the cache that vLLM must have for each rollout. */
  readonly contextTokens: number;
  /** Rollouts at once. */
  readonly maxConcurrent: number;
  /** One card per worker. */
  readonly workers: readonly GpuCard[];
  /** Each worker holds a part of every layer instead of a copy of the base. */
  readonly isDivided: boolean;
  /** The cards of each vLLM that the run starts; empty if others run the servers. */
  readonly servers: readonly (readonly GpuCard[])[];
  /** The share that the user gave vLLM; null leaves it to the plan. */
  readonly givenShare: number | null;
  /** vLLM sleeps while the worker computes. */
  readonly takesTurns: boolean;
  /** Further cards that the process sees, `index` as in `cuda:1`. */
  readonly spare: readonly GpuCard[];
}

export interface GpuPlan {
  readonly checkpointing: boolean;
  readonly maxTokens: number;
  /** vLLM's share of each of its cards, rounded down to hundredths; null if the run starts none. */
  readonly share: number | null;
  readonly worker: TrainerMemory;
  /** Bytes of vLLM on each of its cards. */
  readonly serverBytes: number | null;
  /** Whole rollouts whose keys and values fit at once in each server, in the order of `servers`; null without servers. */
  readonly rollouts: readonly number[] | null;
}

/** `change` is the least change that would make the run fit, as an instruction. */
export type GpuFit = { readonly plan: GpuPlan } | { readonly problem: string; readonly change: string };

/** Left free on every card, for the rounding of allocators. */
const RESERVED = 0.1;
/** Fewer whole rollouts in the cache than this would be sampled nearly one after another. */
const LEAST_ROLLOUTS = 16;
/** With fewer than this, checkpointing is worth its time, because sampling then waits for cache. */
const ENOUGH_ROLLOUTS = 64;
/** Memory that a sleeping vLLM still holds: its context and graphs. */
const ASLEEP_BYTES = 2 * GIB;

/** `workers` must not be empty. */
export function fitGpus(needs: GpuNeeds): GpuFit {
  const plan = planFor(needs);
  return plan === null ? { problem: problemOf(needs), change: changeFor(needs) } : { plan };
}

/** The first of these that fits: without checkpointing and a full cache, then with checkpointing; each with the wanted micro-batch, then a smaller one. */
function planFor(needs: GpuNeeds): GpuPlan | null {
  const { checkpointing, maxTokens, isMaxTokensChosen } = needs;
  const ways = checkpointing === 'auto' ? [false, true] : [checkpointing];
  for (const way of ways) {
    const isLast = way === ways.at(-1);
    const least = isMaxTokensChosen || !isLast ? maxTokens : Math.min(maxTokens, needs.contextTokens);
    const found = planWith(needs, way, { least, rollouts: isLast ? LEAST_ROLLOUTS : ENOUGH_ROLLOUTS });
    if (found !== null) return found;
  }
  return null;
}

function planWith(needs: GpuNeeds, checkpointing: boolean, wanted: { readonly least: number; readonly rollouts: number }): GpuPlan | null {
  const { shape, servers, contextTokens, maxTokens, givenShare, takesTurns, maxConcurrent } = needs;
  const settings = settingsOf(needs, checkpointing);
  const most = Math.ceil(Math.min(wanted.rollouts, maxConcurrent) / Math.max(1, servers.length));
  const leastServer = (cards: readonly GpuCard[]) => leastServerBytes(shape, contextTokens, most, cards.length);
  const givenBytes = (card: GpuCard) => (givenShare === null ? null : givenShare * card.totalBytes);
  // Memory that each worker may take of its card.
  const rooms = needs.workers.map((card) => {
    const server = servers.find((own) => own.includes(card));
    if (server === undefined) return usable(card);
    if (takesTurns) return usable(card) - ASLEEP_BYTES;
    // The share is rounded down to hundredths.
    return usable(card) - (givenBytes(card) ?? leastServer(server) + card.totalBytes / 100);
  });
  const room = Math.min(...rooms);
  const tokens = Math.max(largestMicroBatch(shape, settings, room, maxTokens), largestMicroBatch(shape, settings, room, wanted.least));
  if (tokens < wanted.least) return null;
  const worker = trainerMemory(shape, { ...settings, maxTokens: tokens });
  const plan = { checkpointing, maxTokens: tokens, worker };
  if (servers.length === 0) return { ...plan, share: null, serverBytes: null, rollouts: null };
  const beside = takesTurns ? residentBytes(worker) : worker.total;
  const shares = servers.flat().map((card) => (usable(card) - (needs.workers.includes(card) ? beside : 0)) / card.totalBytes);
  const share = givenShare ?? Math.floor(Math.min(...shares) * 100) / 100;
  const smallest = Math.min(...servers.flat().map(({ totalBytes }) => totalBytes));
  if (servers.some((cards) => share * smallest < leastServer(cards))) return null;
  if (givenShare !== null && shares.some((free) => givenShare > free + RESERVED / 2)) return null;
  const rollouts = servers.map((cards) => concurrentRollouts(shape, share * smallest, contextTokens, cards.length));
  return { ...plan, share, serverBytes: share * smallest, rollouts };
}

function settingsOf({ rank, targets, bytesPerWeight, isDivided, workers }: GpuNeeds, checkpointing: boolean) {
  return { rank, targets, bytesPerWeight, checkpointing, shards: isDivided ? workers.length : 1 };
}

/** Memory of a card that the run may use, without the reserve and the memory of other programs. */
function usable({ totalBytes, usedBytes }: GpuCard): number {
  return totalBytes * (1 - RESERVED) - usedBytes;
}

function leastServerBytes(shape: ModelShape, contextTokens: number, rollouts: number, cards: number): number {
  return serverFixedBytes(shape, cards) + (rollouts * cacheBytesPerToken(shape) * contextTokens) / cards;
}

function problemOf(needs: GpuNeeds): string {
  const { shape, workers, servers, contextTokens, maxTokens, isMaxTokensChosen, takesTurns } = needs;
  const checkpointing = needs.checkpointing === 'auto' || needs.checkpointing;
  const tokens = isMaxTokensChosen ? maxTokens : Math.min(maxTokens, contextTokens);
  const { total } = trainerMemory(shape, { ...settingsOf(needs, checkpointing), maxTokens: tokens });
  const part = needs.isDivided ? ' each' : '';
  const how = `${checkpointing ? 'with' : 'without'} gradient checkpointing and micro-batches of ${tokens} tokens`;
  const cards = [...new Set([...workers, ...servers.flat()])].map(cardText).join(', ');
  const own = servers[0];
  const server = own === undefined ? '' : `, vLLM at least ${gib(leastServerBytes(shape, contextTokens, leastRollouts(needs), own.length))}`;
  const together = own === undefined || takesTurns || !own.some((card) => workers.includes(card)) ? '' : ' on the same card';
  return `${shape.name} does not fit: ${needs.isDivided ? 'the workers need' : 'the worker needs'} ${gib(total)}${part} ${how}${server}${together}; there is ${cards}, with a tenth kept free`;
}

function leastRollouts({ servers, maxConcurrent }: GpuNeeds): number {
  return Math.ceil(Math.min(LEAST_ROLLOUTS, maxConcurrent) / Math.max(1, servers.length));
}

function cardText({ index, totalBytes, usedBytes }: GpuCard): string {
  const used = usedBytes > GIB / 2 ? `, ${gib(usedBytes)} of them used by other programs` : '';
  return `GPU ${index} of ${gib(totalBytes)}${used}`;
}

/** Tries one change after the other, the cheapest first. */
function changeFor(needs: GpuNeeds): string {
  const fits = (change: Partial<GpuNeeds>) => planFor({ ...needs, ...change }) !== null;
  const { workers, servers, spare } = needs;
  const isShared = servers.some((cards) => cards.some((card) => workers.includes(card)));
  const [other] = spare;
  if (needs.checkpointing === false && fits({ checkpointing: true })) return 'set backend.gradient_checkpointing = "auto"';
  if (needs.givenShare !== null && fits({ givenShare: null })) return 'leave --gpu-memory-utilization out of [policy.launch].args';
  const lower = [8192, 4096, 2048].find((maxTokens) => maxTokens < needs.maxTokens && maxTokens >= needs.contextTokens && fits({ maxTokens }));
  const least = lower ?? (fits({ maxTokens: Math.min(needs.contextTokens, needs.maxTokens) }) ? needs.contextTokens : null);
  if (needs.isMaxTokensChosen && least !== null) return `set backend.max_tokens = ${least * workers.length}`;
  if (needs.isMaxTokensChosen && needs.checkpointing === false && fits({ checkpointing: true, isMaxTokensChosen: false }))
    return 'set backend.gradient_checkpointing = "auto" and leave backend.max_tokens out';
  if (workers.length > 1 && !needs.isDivided && fits({ isDivided: true })) return 'divide the base between the workers: backend.sharding = "full"';
  if (isShared && workers.length === 1 && other !== undefined && fits({ workers: [other] }))
    return `give the worker its own GPU: backend.device = "cuda:${other.index}"`;
  if (isShared && !needs.takesTurns && fits({ takesTurns: true })) return 'let vLLM and the worker take turns on the GPU: policy.launch.sleep = true';
  const idle = workers.map((card) => ({ ...card, usedBytes: 0 }));
  const freed = planFor({ ...needs, workers: idle, servers: servers.length === 0 ? idle.map((card) => [card]) : servers });
  if (servers.length === 0 && workers.some(({ usedBytes }) => usedBytes > 0) && freed !== null)
    return `start vLLM with --gpu-memory-utilization=${freed.share}, or end what else runs on the worker's GPU`;
  const size = smallestCard(needs);
  return size === null ? 'use a smaller model, shorter contexts, or GPUs with more memory' : `use a GPU of at least ${size} GiB, or a smaller model`;
}

/** GiB of the smallest card on which the run would fit. */
function smallestCard(needs: GpuNeeds): number | null {
  const grown = (size: number) => {
    const of = new Map([...needs.workers, ...needs.servers.flat()].map((card) => [card, { ...card, totalBytes: size * GIB, usedBytes: 0 }]));
    const workers = needs.workers.map((card) => of.get(card)!);
    return planFor({ ...needs, workers, servers: needs.servers.map((cards) => cards.map((card) => of.get(card)!)) }) !== null;
  };
  return [8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 141, 180, 288].find(grown) ?? null;
}

function gib(bytes: number): string {
  return `${(bytes / GIB).toFixed(1)} GiB`;
}
