/** Forward and backward passes over whole sequences: log-probs of targets, bit for bit those of the sampler's pass, and gradients of an adapter. */
import { MemoryLimitError } from '../engine-errors.ts';
import type { Kernels } from '../kernels/kernels.ts';
import type { EngineMemory } from '../kernels/web-assembly.ts';
import type { AdapterWeights, ModelWeights } from '../model/model-types.ts';
import { type Dimensions, dimensionsOf } from './dimensions.ts';
import { HeadPass, type HeadRows } from './head-pass.ts';
import { type BackwardPass, LayerBackward } from './layer-backward.ts';
import { LayerForward } from './layer-forward.ts';
import type { MemoryRegion } from './memory.ts';
import { MemoryViews } from './memory-views.ts';
import { type PackedSequences, packSequences } from './pack-sequences.ts';
import type { AdapterRun, PlannedSegment, RowPlan } from './row-plan.ts';
import { layOutTraining, shapeBytes, type TrainingBuffers, type TrainingShape } from './training-layout.ts';
import type { AdapterGradient, SequenceBatch, TrainingPass } from './training-types.ts';
import { gatherEmbeddings } from './weight-products.ts';

export interface TrainerPassOptions {
  readonly kernels: Kernels;
  readonly memory: EngineMemory;
  readonly model: ModelWeights;
  /** At least `trainingBytes` of the batch. */
  readonly region: MemoryRegion;
  /** Keeps only the input of each layer and recomputes the rest in the backward pass. */
  readonly checkpointing: boolean;
}

interface Retained {
  readonly plan: RowPlan;
  readonly buffers: TrainingBuffers;
  readonly head: HeadRows;
  readonly adapter: AdapterWeights | null;
}

export class TrainerPass implements TrainingPass {
  readonly #kernels: Kernels;
  readonly #model: ModelWeights;
  readonly #sizes: Dimensions;
  readonly #region: MemoryRegion;
  readonly #checkpointing: boolean;
  readonly #views: MemoryViews;
  readonly #layers: LayerForward;
  readonly #layersBackward: LayerBackward;
  readonly #head: HeadPass;
  #retained: Retained | null = null;

  constructor({ kernels, memory, model, region, checkpointing }: TrainerPassOptions) {
    this.#kernels = kernels;
    this.#model = model;
    this.#sizes = dimensionsOf(model.config);
    this.#region = region;
    this.#checkpointing = checkpointing;
    this.#views = new MemoryViews(memory);
    const parts = { kernels, model, views: this.#views };
    this.#layers = new LayerForward(parts);
    this.#layersBackward = new LayerBackward(parts);
    this.#head = new HeadPass(parts);
  }

  /** Releases an earlier retained batch, even if this one is not retained. Throws RangeError or MemoryLimitError; then nothing has changed. */
  forward(
    batch: SequenceBatch,
    options: { readonly adapter: AdapterWeights | null; readonly retain: boolean; readonly entropy: boolean },
  ): { readonly logProbs: Float32Array; readonly entropy: Float32Array | null } {
    this.#check(batch);
    const { adapter } = options;
    const packed = packSequences(batch);
    const { maxPositions } = this.#model.config;
    if (packed.longest > maxPositions) throw new RangeError(`expected sequences of at most ${maxPositions} tokens, got ${packed.longest + 1}`);
    const buffers = this.#layOut(packed, adapter?.paddedRank ?? 0, options.retain);
    this.#retained = null;
    this.#views.refresh();
    const plan = this.#plan(batch, packed, buffers, adapter);
    const head = { at: buffers.head, count: plan.wanted.length, inverseTemperature: 1 / batch.temperature };
    if (head.count > 0) this.#compute(plan, buffers);
    const result = this.#head.forward(head, options.entropy);
    if (options.retain) this.#retained = { plan, buffers, head, adapter };
    return result;
  }

  /** Throws RangeError if no batch is retained, or one of the base model. */
  backward(gradient: AdapterGradient, d: { readonly dLogProbs: Float32Array; readonly dEntropy: Float32Array | null; readonly scale: number }): void {
    const retained = this.#retained;
    if (retained === null) throw new RangeError('no batch is retained for the backward pass; call forward with retain first');
    const { plan, buffers, head, adapter } = retained;
    const { dLogProbs, dEntropy } = d;
    if (adapter === null) throw new RangeError('the retained batch was computed without an adapter and has no gradient');
    if (dLogProbs.length !== head.count || (dEntropy ?? dLogProbs).length !== head.count) {
      throw new RangeError(`expected gradients of ${head.count} targets, got ${dLogProbs.length} and ${dEntropy?.length ?? 0}`);
    }
    this.#retained = null;
    if (head.count === 0) return;
    this.#views.refresh();
    const { floats } = this.#views;
    floats.set(dLogProbs, head.at.dLogProbs / 4);
    if (dEntropy !== null) floats.set(dEntropy, head.at.dEntropies / 4);
    const pass = { adapter, gradient, scale: d.scale, buffers: buffers.backward!, scratch: buffers.scratch };
    this.#head.backward(head, pass.buffers, dEntropy !== null);
    this.#throughLayers(pass, plan, buffers);
  }

  #compute(plan: RowPlan, { ids, layers, scratch }: TrainingBuffers): void {
    const { hidden } = this.#sizes;
    gatherEmbeddings(this.#kernels, this.#model.embedding, ids, layers[0]!.attention.x, plan.rows);
    for (const [layer, { attention, feedForward, cache }] of layers.entries()) {
      const isLast = layer === layers.length - 1;
      this.#layers.attend(layer, plan, attention, cache, scratch, isLast);
      if (!isLast) this.#layers.feedForward(layer, plan.rows, plan.runs, feedForward, scratch);
    }
    const { attention, feedForward } = layers.at(-1)!;
    this.#views.gather(attention.x, feedForward.x, hidden, plan.wanted);
    this.#views.gather(attention.attended, feedForward.attended, this.#sizes.queryWidth, plan.wanted);
    this.#layers.feedForward(layers.length - 1, plan.wanted.length, plan.wantedRuns, feedForward, scratch);
  }

  #throughLayers(pass: BackwardPass, plan: RowPlan, { layers }: TrainingBuffers): void {
    const { hidden, queryWidth } = this.#sizes;
    const { dx, dWanted, dAttended, dAttendedWanted } = pass.buffers;
    const lowest = pass.adapter.layers.findIndex((modules) => Object.keys(modules).length > 0);
    const top = layers.length - 1;
    if (lowest === -1) return;
    this.#layersBackward.feedForward(pass, top, plan.wanted.length, layers[top]!.feedForward, dWanted, dAttendedWanted);
    this.#scatter(dWanted, dx, hidden, plan);
    this.#scatter(dAttendedWanted, dAttended, queryWidth, plan);
    this.#layersBackward.attention(pass, top, plan, layers[top]!, { wantedOnly: true, isLowest: top === lowest });
    for (let layer = top - 1; layer >= lowest; layer--) {
      const { attention, feedForward, cache } = layers[layer]!;
      if (this.#checkpointing) {
        this.#layers.attend(layer, plan, attention, cache, pass.scratch, false);
        this.#layers.expand(layer, plan.rows, plan.runs, feedForward, pass.scratch);
      }
      this.#layersBackward.feedForward(pass, layer, plan.rows, feedForward, dx, dAttended);
      this.#layersBackward.attention(pass, layer, plan, layers[layer]!, { wantedOnly: false, isLowest: layer === lowest });
    }
  }

  /** Adds the rows of wanted positions to the rows they came from; several targets may share one. */
  #scatter(source: number, target: number, width: number, { rows, wanted }: RowPlan): void {
    this.#views.floats.fill(0, target / 4, target / 4 + rows * width);
    for (let i = 0; i < wanted.length;) {
      const first = wanted[i]!;
      let count = 1;
      while (i + count < wanted.length && wanted[i + count] === first + count) count++;
      this.#kernels.addTo(target + first * width * 4, source + i * width * 4, count * width);
      i += count;
    }
  }

  #layOut(packed: PackedSequences, rank: number, retain: boolean): TrainingBuffers {
    const { config } = this.#model;
    const shape: TrainingShape = {
      rows: packed.rows,
      wanted: packed.wanted.length,
      blocks: packed.blocks,
      tableEntries: packed.segments.reduce((sum, { blocks }) => sum + blocks.length, 0),
      longest: packed.longest,
      rank,
      keep: retain ? (this.#checkpointing ? 'inputs' : 'all') : 'nothing',
    };
    const bytes = shapeBytes(config, shape);
    if (bytes > this.#region.bytes) {
      const [needed, there] = [bytes, this.#region.bytes].map((each) => (each / 2 ** 20).toFixed(1));
      throw new MemoryLimitError(`this batch needs ${needed} MiB, there are ${there} MiB; pass fewer tokens at once, or use checkpointing`);
    }
    return layOutTraining(this.#region, config, shape);
  }

  /** Writes ids, positions, block numbers and targets to the memory. */
  #plan(batch: SequenceBatch, packed: PackedSequences, buffers: TrainingBuffers, adapter: AdapterWeights | null): RowPlan {
    const { ints } = this.#views;
    const { rows, wanted } = packed;
    const isWanted = new Uint8Array(rows);
    for (const row of wanted) isWanted[row] = 1;
    let table = buffers.tables;
    const segments = packed.segments.map(({ row, count, past, start, blocks }): PlannedSegment => {
      ints.set(batch.ids.subarray(start, start + count), buffers.ids / 4 + row);
      for (let i = 0; i < count; i++) ints[buffers.positions / 4 + row + i] = past + i;
      ints.set(blocks, table / 4);
      const place = isWanted.subarray(row, row + count).indexOf(1);
      const planned = { row, count, past, table, firstWanted: place === -1 ? count : place };
      table += blocks.length * 4;
      return planned;
    });
    const { targetIds = batch.targets.map((target) => batch.ids[target]!) } = batch;
    ints.set(targetIds, buffers.head.targets / 4);
    const all = (count: number): readonly AdapterRun[] => (adapter === null ? [] : [{ adapter, first: 0, count }]);
    const { positions } = buffers;
    return { rows, blocks: packed.blocks, positions, segments, runs: all(rows), wanted, wantedRuns: all(wanted.length) };
  }

  #check({ ids, temperature }: SequenceBatch): void {
    const { vocabulary } = this.#sizes;
    for (const id of ids) if (!(id >= 0 && id < vocabulary)) throw new RangeError(`expected tokens from 0 to ${vocabulary - 1}, got ${id}`);
    if (!(temperature > 0 && temperature < Infinity)) throw new RangeError(`expected a temperature above 0, got ${temperature}`);
  }
}
