/** The forward pass over a paged cache: any mix of prefill and decode, with several adapters at once. */
import { BLOCK_TOKENS, type Kernels } from '../kernels/kernels.ts';
import type { EngineMemory } from '../kernels/web-assembly.ts';
import type { ModelConfig, ModelWeights } from '../model/model-types.ts';
import { type Dimensions, dimensionsOf, roundUp } from './dimensions.ts';
import type { CacheRegion, ForwardLimits, ForwardPass, LogitRows, Segment } from './forward-types.ts';
import { type AttentionBuffers, type FeedForwardBuffers, LayerForward, type LayerScratch } from './layer-forward.ts';
import { Arena, type MemoryRegion } from './memory.ts';
import { MemoryViews } from './memory-views.ts';
import { AdapterRuns, type PlannedSegment, type RowPlan } from './row-plan.ts';
import { gatherEmbeddings, multiplyWeight } from './weight-products.ts';

export interface TransformerPassOptions {
  readonly kernels: Kernels;
  readonly memory: EngineMemory;
  readonly model: ModelWeights;
  readonly cache: CacheRegion;
  /** At least `forwardBytes` for the same limits. */
  readonly region: MemoryRegion;
  readonly limits: ForwardLimits;
  /** Largest rank of an adapter. */
  readonly maxRank: number;
}

interface ForwardBuffers {
  readonly ids: number;
  readonly positions: number;
  readonly tables: number;
  readonly attention: AttentionBuffers;
  readonly feedForward: FeedForwardBuffers;
  readonly scratch: LayerScratch;
  readonly logits: number;
}

/** Addresses of buffers that only a backward pass would need. */
const NOTHING_KEPT = { inverse: 0, queryInverse: 0, keyInverse: 0, statistics: 0 } as const;

/** Bytes that a pass with these limits needs in addition to its cache. */
export function forwardBytes(config: ModelConfig, limits: ForwardLimits, maxRank: number): number {
  const arena = new Arena({ pointer: 0, bytes: Infinity });
  layOut(arena, config, limits, maxRank);
  return arena.end;
}

const longest = (config: ModelConfig, limits: ForwardLimits): number => Math.min(limits.positions ?? config.maxPositions, config.maxPositions);

function layOut(arena: Arena, config: ModelConfig, limits: ForwardLimits, maxRank: number): ForwardBuffers {
  const sizes = dimensionsOf(config);
  const { rows } = limits;
  const blocks = Math.ceil(longest(config, limits) / BLOCK_TOKENS);
  const x = arena.take(rows * sizes.hidden);
  const normed = arena.take(rows * sizes.hidden);
  const qkv = arena.take(rows * sizes.qkvWidth);
  const attended = arena.take(rows * sizes.queryWidth);
  const stride = sizes.qkvWidth;
  return {
    ids: arena.take(rows),
    positions: arena.take(rows),
    tables: arena.take(rows * blocks),
    attention: {
      x,
      normed,
      qkv,
      attended,
      queries: qkv,
      queryStride: stride,
      keys: qkv + sizes.queryWidth * 4,
      keyStride: stride,
      ...NOTHING_KEPT,
    },
    feedForward: {
      attended,
      x,
      middle: x,
      normed,
      inverse: 0,
      gateUp: arena.take(rows * 2 * sizes.intermediate),
      gated: arena.take(rows * sizes.intermediate),
      out: x,
    },
    scratch: { attention: arena.take(48 * blocks * BLOCK_TOKENS), lowRank: arena.take(rows * roundUp(maxRank, 8)) },
    logits: arena.take(limits.logitRows * sizes.vocabularyStride),
  };
}

export class TransformerPass implements ForwardPass {
  readonly limits: ForwardLimits;
  readonly #kernels: Kernels;
  readonly #model: ModelWeights;
  readonly #sizes: Dimensions;
  readonly #cache: CacheRegion;
  readonly #maxRank: number;
  readonly #views: MemoryViews;
  readonly #buffers: ForwardBuffers;
  readonly #layers: LayerForward;

  constructor({ kernels, memory, model, cache, region, limits, maxRank }: TransformerPassOptions) {
    this.limits = limits;
    this.#kernels = kernels;
    this.#model = model;
    this.#sizes = dimensionsOf(model.config);
    this.#cache = cache;
    this.#maxRank = roundUp(maxRank, 8);
    this.#views = new MemoryViews(memory);
    this.#buffers = layOut(new Arena(region), model.config, limits, maxRank);
    this.#layers = new LayerForward({ kernels, model });
  }

  /** As in ForwardPass. Segments may also read blocks that earlier or later segments of the same pass write. */
  run(segments: readonly Segment[], consume: (logits: LogitRows) => void): void {
    const rows = this.#states(segments);
    if (rows > 0) this.#logits(rows, consume);
  }

  /** Runs the pass and returns the hidden states after the last norm of the tokens whose logits would be wanted, in a copy. [wanted × hidden] */
  hiddenStates(segments: readonly Segment[]): Float32Array {
    const { hidden } = this.#sizes;
    const rows = this.#states(segments);
    const at = this.#buffers.feedForward.normed / 4;
    return this.#views.floats.slice(at, at + rows * hidden);
  }

  /** Computes the wanted tokens' states after the last norm and returns their number. */
  #states(segments: readonly Segment[]): number {
    this.#check(segments);
    if (segments.length === 0) return 0;
    this.#views.refresh();
    const plan = this.#plan(segments);
    const { attention, feedForward, scratch, ids } = this.#buffers;
    const { layers, hidden, queryWidth, layerBlockBytes } = this.#sizes;
    gatherEmbeddings(this.#kernels, this.#model.embedding, ids, attention.x, plan.rows);
    for (let layer = 0; layer < layers; layer++) {
      const isLast = layer === layers - 1;
      const cache = this.#cache.pointer + layer * this.#cache.blocks * layerBlockBytes;
      this.#layers.attend(layer, plan, attention, cache, scratch, isLast);
      if (!isLast) this.#layers.feedForward(layer, plan.rows, plan.runs, feedForward, scratch);
    }
    const { wanted, wantedRuns } = plan;
    if (wanted.length === 0) return 0;
    if (wanted.length < plan.rows) {
      this.#views.gather(attention.x, feedForward.x, hidden, wanted);
      this.#views.gather(attention.attended, feedForward.attended, queryWidth, wanted);
    }
    this.#layers.feedForward(layers - 1, wanted.length, wantedRuns, feedForward, scratch);
    const { finalNorm, config } = this.#model;
    this.#kernels.rmsNorm(feedForward.out, hidden, finalNorm, feedForward.normed, hidden, 0, wanted.length, hidden, config.rmsNormEpsilon);
    return wanted.length;
  }

  #logits(rows: number, consume: (logits: LogitRows) => void): void {
    const { feedForward, logits } = this.#buffers;
    const { hidden, vocabularyStride: stride } = this.#sizes;
    const { head } = this.#model;
    const { normed } = feedForward;
    for (let first = 0; first < rows; first += this.limits.logitRows) {
      const count = Math.min(this.limits.logitRows, rows - first);
      multiplyWeight(this.#kernels, head, normed + first * hidden * 4, hidden, logits, stride, count);
      consume({ pointer: logits, stride, first, count });
    }
  }

  /** Writes ids, positions and block numbers to the memory. */
  #plan(segments: readonly Segment[]): RowPlan {
    const { ints } = this.#views;
    const { ids, positions, tables } = this.#buffers;
    const planned: PlannedSegment[] = [];
    const wanted: number[] = [];
    const runs = new AdapterRuns();
    const wantedRuns = new AdapterRuns();
    let row = 0;
    let table = tables;
    for (const { tokens, past, blocks, adapter, logits } of segments) {
      const count = tokens.length;
      const used = Math.ceil((past + count) / BLOCK_TOKENS);
      for (let i = 0; i < count; i++) {
        ints[ids / 4 + row + i] = tokens[i]!;
        ints[positions / 4 + row + i] = past + i;
      }
      for (let i = 0; i < used; i++) ints[table / 4 + i] = blocks[i]!;
      const firstWanted = logits === 'all' ? 0 : logits === 'last' ? count - 1 : count;
      for (let i = firstWanted; i < count; i++) wanted.push(row + i);
      runs.add(adapter, count);
      wantedRuns.add(adapter, count - firstWanted);
      planned.push({ row, count, past, table, firstWanted });
      row += count;
      table += used * 4;
    }
    return { rows: row, blocks: 0, positions, segments: planned, runs: runs.runs, wanted: Int32Array.from(wanted), wantedRuns: wantedRuns.runs };
  }

  #check(segments: readonly Segment[]): void {
    const positions = longest(this.#model.config, this.limits);
    let rows = 0;
    for (const { tokens, past, blocks, adapter } of segments) {
      const end = past + tokens.length;
      rows += tokens.length;
      if (tokens.length === 0) throw new RangeError('expected segments of at least one token, got an empty one');
      if (!(past >= 0 && end <= positions)) throw new RangeError(`expected positions below ${positions}, got ${past} to ${end - 1}`);
      const used = Math.ceil(end / BLOCK_TOKENS);
      if (blocks.length < used) throw new RangeError(`expected ${used} blocks for ${end} positions, got ${blocks.length}`);
      for (let i = 0; i < used; i++) this.#checkBelow('block', blocks[i]!, this.#cache.blocks);
      for (let i = 0; i < tokens.length; i++) this.#checkBelow('token', tokens[i]!, this.#sizes.vocabulary);
      const rank = adapter?.paddedRank ?? 0;
      if (rank > this.#maxRank) throw new RangeError(`expected adapters of rank ${this.#maxRank} at most, got ${rank}`);
    }
    if (rows > this.limits.rows) throw new RangeError(`expected at most ${this.limits.rows} new tokens in a pass, got ${rows}`);
  }

  #checkBelow(what: string, value: number, limit: number): void {
    if (!(value >= 0 && value < limit)) throw new RangeError(`expected a ${what} from 0 to ${limit - 1}, got ${value}`);
  }
}
