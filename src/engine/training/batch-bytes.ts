/** Memory that training takes: for a given batch, and for the largest batch that is sure to fit. */
import { BLOCK_TOKENS } from '../kernels/kernels.ts';
import { packSequences } from '../compute/pack-sequences.ts';
import { shapeBytes, trainingBytes } from '../compute/training-layout.ts';
import type { SequenceBatch } from '../compute/training-types.ts';
import type { ModelConfig } from '../model/model-types.ts';

interface TrainingSize {
  readonly rank: number;
  readonly checkpointing: boolean;
}

/** Bytes of activations that one thread needs for its share of a batch. */
export function batchBytes(
  config: ModelConfig,
  batch: SequenceBatch,
  { rank, checkpointing, retain }: TrainingSize & { readonly retain: boolean },
): number {
  const { rows, blocks, segments, wanted, longest } = packSequences(batch);
  return shapeBytes(config, {
    rows,
    wanted: wanted.length,
    blocks,
    tableEntries: segments.reduce((sum, segment) => sum + segment.blocks.length, 0),
    longest,
    rank: Math.ceil(rank / 8) * 8,
    keep: retain ? (checkpointing ? 'inputs' : 'all') : 'nothing',
  });
}

/**
 * Tokens of the largest batch that fits `bytes`, however its sequences are divided among the threads and whatever their targets are; 0 if none fits. Assumes that
 * sequences average at least one cache block (16 tokens); of shorter ones fewer tokens fit.
 */
export function mostTokens(config: ModelConfig, bytes: number, threads: number, size: TrainingSize): number {
  // A thread's memory beyond its share of the tokens stops growing, so an even split takes the most.
  const fits = (tokens: number) => threads * trainingBytes(config, { ...size, ...shareOf(tokens, threads) }) <= bytes;
  let [low, high] = [0, 1];
  while (fits(high)) [low, high] = [high, 2 * high];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (fits(middle)) low = middle;
    else high = middle;
  }
  return low;
}

function shareOf(tokens: number, threads: number): { readonly tokens: number; readonly sequences: number } {
  const share = Math.ceil(tokens / threads) + BLOCK_TOKENS;
  return { tokens: share, sequences: Math.ceil(share / BLOCK_TOKENS) };
}
