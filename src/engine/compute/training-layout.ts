/** Memory layout and size of the activations of one training batch. */
import { BLOCK_TOKENS } from '../kernels/kernels.ts';
import type { ModelConfig } from '../model/model-types.ts';
import { type Dimensions, dimensionsOf, roundUp } from './dimensions.ts';
import type { AttentionBuffers, FeedForwardBuffers, LayerScratch } from './layer-forward.ts';
import { Arena, type MemoryRegion } from './memory.ts';

/** The numbers that determine a batch's memory, which grows with each of them. */
export interface TrainingShape {
  readonly rows: number;
  readonly wanted: number;
  /** Number of cache blocks. */
  readonly blocks: number;
  /** Number of block numbers of all segments together. */
  readonly tableEntries: number;
  /** Number of positions of the longest sequence. */
  readonly longest: number;
  /** Padded to a multiple of 8. */
  readonly rank: number;
  /** `nothing`: only a forward pass. `inputs`: the layers' inputs; the backward pass recomputes the rest. `all`: every activation. */
  readonly keep: 'nothing' | 'inputs' | 'all';
}

export interface LayerBuffers {
  readonly attention: AttentionBuffers;
  /** In the last layer it holds the wanted rows only, with a copy of their `attended`. */
  readonly feedForward: FeedForwardBuffers;
  readonly cache: number;
}

export interface HeadBuffers {
  /** Input of the final norm, [W, hidden]. */
  readonly out: number;
  readonly normed: number;
  /** [W] */
  readonly inverse: number;
  /** [chunk, vocabularyStride] */
  readonly logits: number;
  /** Rows of logits computed at once. If that is all of them, the backward pass reuses them. */
  readonly chunk: number;
  /** int32 [W] */
  readonly targets: number;
  /** Entropies and both gradients, [W] each. */
  readonly entropies: number;
  readonly dLogProbs: number;
  readonly dEntropies: number;
}

/** `most` is the larger of the W wanted rows and all rows. */
export interface BackwardBuffers {
  /** [rows, hidden] */
  readonly dx: number;
  /** [W, hidden] */
  readonly dWanted: number;
  /** [most, hidden] */
  readonly dNormed: number;
  /** [most, intermediate] */
  readonly dGated: number;
  /** [rows, queryWidth] */
  readonly dAttended: number;
  /** [W, queryWidth] */
  readonly dAttendedWanted: number;
  /** [rows, qkvWidth] */
  readonly dQkv: number;
  /** One layer's gradients of keys and values. */
  readonly gradientCache: number;
  /** [most, rank] */
  readonly dLowRank: number;
  /** [rank, widest module] */
  readonly loraGradient: number;
  /** A repacked matrix: one of a layer, `HEAD_COLUMNS` columns of the head, or one of an adapter. */
  readonly repacked: number;
}

export interface TrainingBuffers {
  readonly ids: number;
  readonly positions: number;
  readonly tables: number;
  readonly scratch: LayerScratch;
  readonly layers: readonly LayerBuffers[];
  readonly head: HeadBuffers;
  /** Null if nothing is kept. */
  readonly backward: BackwardBuffers | null;
}

/** Columns of the head that the backward pass repacks and sums at once. */
export const HEAD_COLUMNS = 128;
/** Logits computed at once: 32 MiB, but at least the rows that the matrix product handles at a time. */
const LOGIT_BYTES = 2 ** 25;
const LEAST_LOGIT_ROWS = 48;

export function layOutTraining(region: MemoryRegion, config: ModelConfig, shape: TrainingShape): TrainingBuffers {
  return place(new Arena(region), dimensionsOf(config), shape);
}

export function shapeBytes(config: ModelConfig, shape: TrainingShape): number {
  const arena = new Arena({ pointer: 0, bytes: Infinity });
  place(arena, dimensionsOf(config), shape);
  return arena.end;
}

/**
 * Bytes that suffice to train any batch of `tokens` tokens. Batches with few targets (`maxTargets`) or with long sequences need less (`sequences` is the maximum in a
 * batch; by default the worst case, sequences of two tokens).
 */
export function trainingBytes(
  config: ModelConfig,
  batch: {
    readonly tokens: number;
    readonly maxTargets?: number;
    readonly sequences?: number;
    readonly rank: number;
    readonly checkpointing: boolean;
  },
): number {
  const { tokens } = batch;
  const sequences = Math.min(batch.sequences ?? tokens, Math.floor(tokens / 2));
  const blocks = Math.ceil(tokens / BLOCK_TOKENS) + sequences;
  return shapeBytes(config, {
    rows: tokens,
    wanted: Math.min(batch.maxTargets ?? tokens, tokens),
    blocks,
    tableEntries: blocks,
    longest: Math.min(tokens, config.maxPositions),
    rank: roundUp(batch.rank, 8),
    keep: batch.checkpointing ? 'inputs' : 'all',
  });
}

function place(arena: Arena, sizes: Dimensions, shape: TrainingShape): TrainingBuffers {
  const { rows, wanted, rank, keep } = shape;
  const padded = roundUp(shape.longest, BLOCK_TOKENS);
  const most = Math.max(rows, wanted);
  const common = {
    ids: arena.take(rows),
    positions: arena.take(rows),
    tables: arena.take(shape.tableEntries),
    scratch: { attention: arena.take(attentionScratch(sizes, padded, rows)), lowRank: arena.take(most * rank) },
  };
  const layers = placeLayers(arena, sizes, shape);
  return {
    ...common,
    layers,
    head: placeHead(arena, sizes, wanted, layers.at(-1)!.feedForward.out),
    backward: keep === 'nothing' ? null : placeBackward(arena, sizes, shape),
  };
}

/** The kernel's own requirement, plus one block's keys and values and tiles of scores, which exceed it for short sequences. */
const attentionScratch = ({ heads, headDim }: Dimensions, positions: number, rows: number): number =>
  2 * 48 * positions + rows * heads + 2 * BLOCK_TOKENS * headDim + 2 * 48 * BLOCK_TOKENS;

function placeLayers(arena: Arena, sizes: Dimensions, { rows, wanted, blocks, keep }: TrainingShape): LayerBuffers[] {
  const { hidden, intermediate, queryWidth, keyWidth, layerBlockBytes } = sizes;
  const keys = arena.take(rows * keyWidth);
  const gated = arena.take(Math.max(rows, wanted) * intermediate);
  const takeCache = () => arena.take((blocks * layerBlockBytes) / 4);
  const takeAttention = () => ({
    normed: arena.take(rows * hidden),
    inverse: arena.take(rows),
    qkv: arena.take(rows * sizes.qkvWidth),
    queryInverse: arena.take(rows * sizes.heads),
    keyInverse: arena.take(rows * sizes.kvHeads),
    queries: arena.take(rows * queryWidth),
    queryStride: queryWidth,
    keys,
    keyStride: keyWidth,
    attended: arena.take(rows * queryWidth),
    statistics: arena.take(rows * sizes.heads),
  });
  const takeFeedForward = (count: number) => ({
    middle: arena.take(count * hidden),
    normed: arena.take(count * hidden),
    inverse: arena.take(count),
    gateUp: arena.take(count * 2 * intermediate),
    gated,
  });
  const shared = keep === 'all' ? null : { attention: takeAttention(), feedForward: takeFeedForward(rows), cache: takeCache() };
  let x = arena.take(rows * hidden);
  const layers = Array.from({ length: sizes.layers - 1 }, (): LayerBuffers => {
    const attention = { ...(shared?.attention ?? takeAttention()), x };
    x = keep === 'nothing' ? x : arena.take(rows * hidden);
    const feedForward = { ...(shared?.feedForward ?? takeFeedForward(rows)), attended: attention.attended, x: attention.x, out: x };
    return { attention, feedForward, cache: shared?.cache ?? takeCache() };
  });
  const last = takeFeedForward(wanted);
  layers.push({
    attention: { ...(shared?.attention ?? takeAttention()), x },
    feedForward: { ...last, x: last.middle, attended: arena.take(wanted * queryWidth), out: arena.take(wanted * hidden) },
    cache: shared?.cache ?? takeCache(),
  });
  return layers;
}

function placeHead(arena: Arena, { hidden, vocabularyStride }: Dimensions, wanted: number, out: number): HeadBuffers {
  const fitting = Math.floor(LOGIT_BYTES / 4 / vocabularyStride / LEAST_LOGIT_ROWS) * LEAST_LOGIT_ROWS;
  const chunk = Math.min(wanted, Math.max(LEAST_LOGIT_ROWS, fitting));
  return {
    out,
    normed: arena.take(wanted * hidden),
    inverse: arena.take(wanted),
    logits: arena.take(chunk * vocabularyStride),
    chunk,
    targets: arena.take(wanted),
    entropies: arena.take(wanted),
    dLogProbs: arena.take(wanted),
    dEntropies: arena.take(wanted),
  };
}

function placeBackward(arena: Arena, sizes: Dimensions, { rows, wanted, blocks, rank }: TrainingShape): BackwardBuffers {
  const { hidden, intermediate, queryWidth, qkvWidth, layerBlockBytes, vocabularyStride } = sizes;
  const most = Math.max(rows, wanted);
  const widest = Math.max(hidden, intermediate, queryWidth);
  const largest = Math.max(hidden * qkvWidth, queryWidth * hidden, 2 * hidden * intermediate, hidden * Math.min(HEAD_COLUMNS, vocabularyStride));
  return {
    dx: arena.take(rows * hidden),
    dWanted: arena.take(wanted * hidden),
    dNormed: arena.take(most * hidden),
    dGated: arena.take(most * intermediate),
    dAttended: arena.take(rows * queryWidth),
    dAttendedWanted: arena.take(wanted * queryWidth),
    dQkv: arena.take(rows * qkvWidth),
    gradientCache: arena.take((blocks * layerBlockBytes) / 4),
    dLowRank: arena.take(most * rank),
    loraGradient: arena.take(rank * widest),
    repacked: arena.take(Math.max(largest, rank * widest)),
  };
}
