/**
 * `vf-search/engine`: the embedded engine for programs. The package's second barrel: a program that samples or fine-tunes a model needs nothing of the
 * package's main entry, which loads environments, retrieval and evaluation, and those must not load kernels and threads.
 */
export { Engine, type OpenOptions } from './library/engine.ts';
export { Adapter } from './library/adapter.ts';
export type { GeneratedPart, GeneratedText, GenerationOptions, Prompt } from './library/generation-options.ts';
export { type AdamStep, type ForwardOptions, type ForwardResult, Trainer, type TrainerOptions } from './library/trainer.ts';
export type { TokenSequence } from './library/sequences.ts';
export type { EngineStats } from './engine-types.ts';
export type { AdaptedName, ModelConfig } from './model/model-types.ts';
export type { ModelTokenizer } from '../tokenizer/tokenizer-types.ts';
export { EngineInputError, type EngineInputCode, EngineLostError, MemoryLimitError, NotFiniteError } from './engine-errors.ts';
export { CancelledError } from '../core/errors.ts';
