/** The backward pass through one decoder layer. Only adapters get a gradient, base weights do not. */
import type { Kernels } from '../kernels/kernels.ts';
import type { AdaptedName, AdapterWeights, ModelWeights, WeightMatrix } from '../model/model-types.ts';
import { type Dimensions, dimensionsOf } from './dimensions.ts';
import type { FeedForwardBuffers, LayerScratch } from './layer-forward.ts';
import type { MemoryViews } from './memory-views.ts';
import type { RowPlan } from './row-plan.ts';
import type { AdapterGradient } from './training-types.ts';
import type { BackwardBuffers, LayerBuffers } from './training-layout.ts';
import { repackWeight } from './weight-products.ts';

/** State that all layers of one backward pass share. */
export interface BackwardPass {
  readonly adapter: AdapterWeights;
  readonly gradient: AdapterGradient;
  /** alpha / rank */
  readonly scale: number;
  readonly buffers: BackwardBuffers;
  readonly scratch: LayerScratch;
}

export class LayerBackward {
  readonly #kernels: Kernels;
  readonly #model: ModelWeights;
  readonly #sizes: Dimensions;
  readonly #views: MemoryViews;

  constructor(parts: { readonly kernels: Kernels; readonly model: ModelWeights; readonly views: MemoryViews }) {
    this.#kernels = parts.kernels;
    this.#model = parts.model;
    this.#sizes = dimensionsOf(parts.model.config);
    this.#views = parts.views;
  }

  /** Turns `dx` from the gradient of `out` into that of `middle`. Overwrites `dAttended`, `gateUp` and `gated`. */
  feedForward(pass: BackwardPass, layer: number, rows: number, at: FeedForwardBuffers, dx: number, dAttended: number): void {
    const kernels = this.#kernels;
    const { hidden, intermediate, queryWidth } = this.#sizes;
    const { dGated, dNormed } = pass.buffers;
    const weights = this.#model.layers[layer]!;
    const width = 2 * intermediate;
    const up = at.gateUp + intermediate * 4;
    kernels.siluMultiply(at.gateUp, width, up, width, at.gated, intermediate, rows, intermediate);
    this.#throughWeight(pass, weights.down, dx, hidden, dGated, intermediate, rows);
    this.#throughAdapter(pass, layer, 'down_proj', at.gated, intermediate, dx, hidden, dGated, intermediate, rows);
    kernels.siluMultiplyBackward(at.gateUp, width, up, width, dGated, intermediate, rows, intermediate);
    this.#throughWeight(pass, weights.gateUp, at.gateUp, width, dNormed, hidden, rows);
    this.#throughAdapter(pass, layer, 'gate_proj', at.normed, hidden, at.gateUp, width, dNormed, hidden, rows);
    this.#throughAdapter(pass, layer, 'up_proj', at.normed, hidden, up, width, dNormed, hidden, rows);
    kernels.rmsNormBackward(at.middle, hidden, weights.postNorm, at.inverse, dNormed, hidden, dx, hidden, rows, hidden, 1);
    this.#throughWeight(pass, weights.output, dx, hidden, dAttended, queryWidth, rows);
    this.#throughAdapter(pass, layer, 'o_proj', at.attended, queryWidth, dx, hidden, dAttended, queryWidth, rows);
  }

  /** Turns `dx` from the gradient of the residual stream into that of the layer's input; with `isLowest` it leaves `dx` incomplete. */
  attention(
    pass: BackwardPass,
    layer: number,
    plan: RowPlan,
    at: LayerBuffers,
    options: { readonly wantedOnly: boolean; readonly isLowest: boolean },
  ): void {
    this.#attend(pass, plan, at, options.wantedOnly);
    const kernels = this.#kernels;
    const { rows, positions } = plan;
    const { hidden, heads, kvHeads, headDim, qkvWidth, queryWidth, keyWidth } = this.#sizes;
    const { dQkv, dNormed, dx } = pass.buffers;
    const { attention } = at;
    const weights = this.#model.layers[layer]!;
    const { rotations } = this.#model;
    const [dKeys, dValues] = [dQkv + queryWidth * 4, dQkv + (queryWidth + keyWidth) * 4];
    const keys = attention.qkv + queryWidth * 4;
    kernels.rotate(dQkv, qkvWidth, rows, heads, headDim, rotations, positions, -1, 1 / Math.sqrt(headDim));
    kernels.rotate(dKeys, qkvWidth, rows, kvHeads, headDim, rotations, positions, -1, 1);
    const { queryInverse, keyInverse } = attention;
    kernels.headNormBackward(attention.qkv, qkvWidth, weights.queryNorm, queryInverse, dQkv, qkvWidth, dQkv, qkvWidth, rows, heads, headDim);
    kernels.headNormBackward(keys, qkvWidth, weights.keyNorm, keyInverse, dKeys, qkvWidth, dKeys, qkvWidth, rows, kvHeads, headDim);
    const dInput = options.isLowest ? 0 : dNormed;
    if (!options.isLowest) this.#throughWeight(pass, weights.qkv, dQkv, qkvWidth, dNormed, hidden, rows);
    this.#throughAdapter(pass, layer, 'q_proj', attention.normed, hidden, dQkv, qkvWidth, dInput, hidden, rows);
    this.#throughAdapter(pass, layer, 'k_proj', attention.normed, hidden, dKeys, qkvWidth, dInput, hidden, rows);
    this.#throughAdapter(pass, layer, 'v_proj', attention.normed, hidden, dValues, qkvWidth, dInput, hidden, rows);
    if (options.isLowest) return;
    kernels.rmsNormBackward(attention.x, hidden, weights.inputNorm, attention.inverse, dNormed, hidden, dx, hidden, rows, hidden, 1);
  }

  /** From `dAttended` to `dQkv`, still without the backward of rotation and norm. */
  #attend({ buffers, scratch }: BackwardPass, plan: RowPlan, { attention, cache }: LayerBuffers, wantedOnly: boolean): void {
    const kernels = this.#kernels;
    const { heads, kvHeads, headDim, qkvWidth, queryWidth, keyWidth, layerBlockBytes } = this.#sizes;
    const { dQkv, dAttended, gradientCache } = buffers;
    const { floats } = this.#views;
    const { segments, blocks } = plan;
    floats.fill(0, gradientCache / 4, (gradientCache + blocks * layerBlockBytes) / 4);
    for (const { row, count, past, table, firstWanted } of segments) {
      const skipped = wantedOnly ? firstWanted : 0;
      for (let i = row; i < row + skipped; i++) floats.fill(0, dQkv / 4 + i * qkvWidth, dQkv / 4 + i * qkvWidth + queryWidth);
      if (skipped === count) continue;
      const first = row + skipped;
      kernels.attentionBackward(
        attention.queries + first * queryWidth * 4,
        queryWidth,
        count - skipped,
        past + skipped,
        heads,
        kvHeads,
        headDim,
        cache,
        layerBlockBytes,
        table,
        attention.attended + first * queryWidth * 4,
        queryWidth,
        attention.statistics + first * heads * 4,
        dAttended + first * queryWidth * 4,
        queryWidth,
        dQkv + first * qkvWidth * 4,
        qkvWidth,
        gradientCache,
        layerBlockBytes,
        scratch.attention,
      );
    }
    // After all segments, because keys get gradients from every segment that reads their blocks.
    const dKeys = dQkv + queryWidth * 4;
    for (const { row, count, past, table } of segments) {
      const at = dKeys + row * qkvWidth * 4;
      kernels.readGradientCache(at, qkvWidth, at + keyWidth * 4, qkvWidth, count, past, kvHeads, headDim, gradientCache, layerBlockBytes, table);
    }
  }

  /** dX = dY · W */
  #throughWeight(pass: BackwardPass, weight: WeightMatrix, dy: number, ldy: number, dx: number, ldx: number, rows: number): void {
    const { repacked } = pass.buffers;
    repackWeight(this.#kernels, weight, 0, weight.outputs, repacked);
    this.#kernels.gemm(dy, ldy, repacked, weight.outputs * 8, dx, ldx, rows, weight.inputs, weight.outputs, 0);
  }

  /** Gradients of A and B, and dX += (dY · B) · A unless `dx` is 0. */
  #throughAdapter(
    pass: BackwardPass,
    layer: number,
    name: AdaptedName,
    x: number,
    ldx: number,
    dy: number,
    ldy: number,
    dx: number,
    lddx: number,
    rows: number,
  ): void {
    const pair = pass.adapter.layers[layer]?.[name];
    if (pair === undefined) return;
    const kernels = this.#kernels;
    const { a, b } = pair;
    const { paddedRank } = pass.adapter;
    const { rank, layers } = pass.gradient;
    const { repacked, dLowRank } = pass.buffers;
    const { lowRank } = pass.scratch;
    const target = layers[layer]?.[name];
    kernels.repackTransposed(b.pointer, paddedRank, 0, b.outputs, repacked);
    kernels.gemm(dy, ldy, repacked, b.outputs * 8, dLowRank, paddedRank, rows, paddedRank, b.outputs, 0);
    if (target !== undefined) {
      kernels.gemmTransposed(dLowRank, paddedRank, x, ldx, target.a, a.inputs, rows, rank, a.inputs);
      kernels.gemm(x, ldx, a.pointer, a.inputs * 8, lowRank, paddedRank, rows, paddedRank, a.inputs, 0);
      this.#addGradientOfB(pass, lowRank, paddedRank, dy, ldy, target.b, b.outputs, rows);
    }
    if (dx === 0) return;
    kernels.repackTransposed(a.pointer, a.inputs, 0, paddedRank, repacked);
    kernels.gemm(dLowRank, paddedRank, repacked, paddedRank * 8, dx, lddx, rows, a.inputs, paddedRank, 1);
  }

  /** `target` [outputs, rank] += scale · dYᵀ · lowRank, computed transposed because the rank need not be a multiple of 8. */
  #addGradientOfB(pass: BackwardPass, lowRank: number, ldl: number, dy: number, ldy: number, target: number, outputs: number, rows: number): void {
    const { scale, buffers } = pass;
    const { rank } = pass.gradient;
    const { floats } = this.#views;
    const source = buffers.loraGradient / 4;
    floats.fill(0, source, source + rank * outputs);
    this.#kernels.gemmTransposed(lowRank, ldl, dy, ldy, buffers.loraGradient, outputs, rows, rank, outputs);
    for (let output = 0, to = target / 4; output < outputs; output++) {
      for (let i = 0, from = source + output; i < rank; i++, to++, from += outputs) floats[to] = floats[to]! + scale * floats[from]!;
    }
  }
}
