/** The options and results of `generate` for programs: the engine's request with defaults. */
import { EngineInputError } from '../engine-errors.ts';
import type { GenerateRequest, Generation, TokenEngine } from '../engine-types.ts';
import { Adapter } from './adapter.ts';
import { checkNames } from './given-options.ts';
import { wholeNumbers } from './token-ids.ts';

/** Text, encoded as the model's tokenizer does with special tokens (BOS, if it adds one), or token ids, taken as they are. */
export type Prompt = string | ArrayLike<number>;

export interface GenerationOptions {
  readonly prompt: Prompt;
  /** From 1. Generation also ends at the engine's `maxModelLen`. @default all that fit */
  readonly maxNewTokens?: number;
  /** In [0, 2]. Below 1e-5 the likeliest token is taken. @default 1 */
  readonly temperature?: number;
  /** In (0, 1]: only the likeliest tokens whose probabilities sum to this. @default 1, all */
  readonly topP?: number;
  /** Only this many of the likeliest tokens. @default -1, all */
  readonly topK?: number;
  /** In [0, 1]: only tokens with at least this share of the likeliest token's probability. @default 0, all */
  readonly minP?: number;
  /** An integer: the same tokens every time, whatever else the engine does. @default the next number of the engine's own seed */
  readonly seed?: number;
  /** Text that ends the generation, even in the middle of a token, and is left out of the result. @default none */
  readonly stop?: string | readonly string[];
  /** Keeps the stop text in the result. @default false */
  readonly includeStop?: boolean;
  /** Ids that end the generation, in addition to the model's own end tokens. @default none */
  readonly stopTokenIds?: readonly number[];
  /** Generates past the model's own end tokens. @default false */
  readonly ignoreEnd?: boolean;
  /** Nothing ends the generation before it has this many tokens; from 0 to `maxNewTokens`. @default 0 */
  readonly minNewTokens?: number;
  /** Leaves special tokens out of `text`. @default true */
  readonly skipSpecialTokens?: boolean;
  /** `raw`: log-probs of the model's own distribution. `processed`: of the one that was sampled from, with temperature and filters. @default raw */
  readonly logProbsMode?: 'raw' | 'processed';
  /** @default the base model alone */
  readonly adapter?: Adapter | null;
  /** Ends the generation with a CancelledError. @default none */
  readonly signal?: AbortSignal;
}

export interface GeneratedText {
  /** Without the prompt, the stop text (unless `includeStop`) and special tokens (unless `skipSpecialTokens` is false). */
  readonly text: string;
  /** All sampled tokens, the end token or the stop text's tokens included. [n] */
  readonly ids: Int32Array;
  /** Natural logarithm of the probability of each sampled token. [n] */
  readonly logProbs: Float32Array;
  /** `length`: at `maxNewTokens` or the engine's `maxModelLen`. */
  readonly finishReason: 'stop' | 'length';
  /** The stop text or id that ended it; null for the model's own end token and for `length`. */
  readonly stopReason: string | number | null;
}

/** A piece of a generation. The pieces of a stream add up to its GeneratedText. */
export type GeneratedPart = Pick<GeneratedText, 'text' | 'ids' | 'logProbs'>;

const KNOWN = [
  'prompt',
  'maxNewTokens',
  'temperature',
  'topP',
  'topK',
  'minP',
  'seed',
  'stop',
  'includeStop',
  'stopTokenIds',
  'ignoreEnd',
  'minNewTokens',
  'skipSpecialTokens',
  'logProbsMode',
  'adapter',
  'signal',
] as const satisfies readonly (keyof GenerationOptions)[];

/** Throws EngineInputError; the engine checks the values. */
export function generateRequest(engine: TokenEngine, options: GenerationOptions): GenerateRequest {
  checkNames('generate', options, KNOWN);
  const { stop = [], signal = new AbortController().signal } = options;
  const prompt = promptIds(engine, options.prompt);
  return {
    prompt,
    adapter: adapterName(engine, options.adapter),
    maxTokens: options.maxNewTokens ?? Math.max(1, engine.maxModelLen - prompt.length),
    sampling: {
      temperature: options.temperature ?? 1,
      topP: options.topP ?? 1,
      topK: options.topK ?? -1,
      minP: options.minP ?? 0,
      seed: options.seed ?? null,
    },
    stop: {
      strings: typeof stop === 'string' ? [stop] : stop,
      includeString: options.includeStop ?? false,
      tokenIds: options.stopTokenIds ?? [],
      ignoreEnd: options.ignoreEnd ?? false,
      minTokens: options.minNewTokens ?? 0,
    },
    skipSpecialTokens: options.skipSpecialTokens ?? true,
    logProbs: 0,
    promptLogProbs: null,
    logProbsMode: options.logProbsMode ?? 'raw',
    allowedTokenIds: null,
    cacheSalt: null,
    signal,
  };
}

/** Throws EngineInputError if there are none. */
export function promptIds({ tokenizer }: TokenEngine, prompt: Prompt): Int32Array {
  if (typeof prompt === 'string') return someOf(tokenizer.encode(prompt, { addSpecialTokens: true }));
  if (typeof prompt === 'object' && typeof prompt?.length === 'number') return someOf(wholeNumbers('The token ids of a prompt', prompt));
  throw new EngineInputError(`The prompt must be text or token ids, got ${prompt === null ? 'null' : typeof prompt}.`, { param: 'prompt' });
}

function someOf(ids: Int32Array): Int32Array {
  if (ids.length > 0) return ids;
  throw new EngineInputError('The prompt has no tokens. Begin with one token at least.', { param: 'prompt' });
}

/** Throws EngineInputError if the value is not an adapter of this engine, or was unloaded. */
function adapterName(engine: TokenEngine, adapter: Adapter | null | undefined): string | null {
  if (adapter === undefined || adapter === null) return null;
  const source = 'what `trainer.publish` or `engine.loadAdapter` of this engine returned';
  if (!(adapter instanceof Adapter)) throw new EngineInputError(`The adapter must be ${source}, got ${typeof adapter}.`, { param: 'adapter' });
  if (!adapter.isOf(engine)) throw new EngineInputError(`The adapter belongs to another engine. Pass ${source}.`, { param: 'adapter' });
  if (adapter.isLoaded) return adapter.name;
  const which = adapter.version === null ? `from ${adapter.directory}` : `of version ${adapter.version}`;
  const remedy = adapter.version === null ? 'Load it again.' : 'Publish with a larger `keep`, or use a newer one.';
  throw new EngineInputError(`The adapter ${which} has been unloaded. ${remedy}`, { code: 'not_found', param: 'adapter' });
}

export function generatedText({ text, ids, logProbs, finish, stopReason }: Generation): GeneratedText {
  return { text, ids, logProbs, finishReason: finish, stopReason };
}
