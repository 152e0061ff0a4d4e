/** Continuous batching: requests join and leave between two forward passes; each pass computes a running request's next token or a chunk of its prompt. */
import { Random } from '../../core/random.ts';
import { thrownText } from '../../core/errors.ts';
import type { ForwardPass, LogitRows, Segment } from '../compute/forward-types.ts';
import { BLOCK_TOKENS } from '../kernels/kernels.ts';
import type { EngineMemory } from '../kernels/web-assembly.ts';
import type { TokenBytes } from '../../tokenizer/tokenizer-types.ts';
import { ActiveRequest } from './active-request.ts';
import { BlockPool } from './block-pool.ts';
import { GeneratedText } from './generated-text.ts';
import type { Sampler, SamplerEvents, SamplerFailure, SamplerRequest, SamplerStats } from './sampler-types.ts';
import { samplingPlan } from './sampling-plan.ts';
import { Scheduler } from './scheduler.ts';
import { type SamplerKernels, TokenChooser } from './token-chooser.ts';

export interface BatchSamplerOptions {
  readonly pass: ForwardPass;
  /** Blocks in the pass's cache; they hold at least `maxModelLen` positions. */
  readonly blocks: number;
  readonly kernels: SamplerKernels;
  /** The memory that holds the pass's logits. */
  readonly memory: EngineMemory;
  readonly model: { readonly vocabularySize: number; readonly endTokenIds: readonly number[] };
  readonly tokenBytes: TokenBytes;
  /** Maximum of tokens in a request, prompt and answer together. */
  readonly maxModelLen: number;
  /** Seed of the random stream for requests without one: the n-th request always gets the same numbers. */
  readonly seed: number;
  readonly events: SamplerEvents;
}

export class BatchSampler implements Sampler {
  readonly #options: BatchSamplerOptions;
  readonly #pool: BlockPool;
  readonly #scheduler: Scheduler;
  readonly #chooser: TokenChooser;
  readonly #random: Random;
  readonly #endTokenIds: ReadonlySet<number>;
  readonly #requests = new Map<number, ActiveRequest>();
  readonly #segments: Segment[] = [];
  #arrivals = 0;
  #generatedTokens = 0;
  #planned: readonly ActiveRequest[] = [];
  /** Index of the planned request that the next row of logits belongs to, and how many of its rows were taken. */
  #current = 0;
  #rowsTaken = 0;

  /** Throws RangeError if the cache is too small for the longest request. */
  constructor(options: BatchSamplerOptions) {
    const { pass, blocks, kernels, memory, model, maxModelLen, seed } = options;
    if (blocks * BLOCK_TOKENS < maxModelLen) {
      throw new RangeError(`expected a cache of ${Math.ceil(maxModelLen / BLOCK_TOKENS)} blocks at least, for ${maxModelLen} tokens, got ${blocks}`);
    }
    this.#options = options;
    this.#pool = new BlockPool(blocks);
    this.#scheduler = new Scheduler(this.#pool, pass.limits);
    this.#chooser = new TokenChooser(kernels, memory, model.vocabularySize);
    this.#random = Random.fromSeed(seed);
    this.#endTokenIds = new Set(model.endTokenIds);
  }

  add(request: SamplerRequest): void {
    const { model, tokenBytes: bytes, maxModelLen } = this.#options;
    const { prompt, stop, skipSpecialTokens, streams } = request;
    const arrival = this.#arrivals++;
    const seed = request.sampling.seed;
    const active = new ActiveRequest({
      request,
      arrival,
      pool: this.#pool,
      plan: samplingPlan(request, model),
      random: seed === null ? this.#random.fork(arrival) : Random.fromSeed(seed),
      text: new GeneratedText({ bytes, skipSpecialTokens, prompt, stop, streams }),
      maxModelLen,
    });
    this.#requests.set(request.id, active);
    this.#scheduler.add(active);
  }

  abort(id: number): void {
    const request = this.#requests.get(id);
    if (request === undefined) return;
    this.#requests.delete(id);
    this.#scheduler.remove(request);
  }

  get isIdle(): boolean {
    return this.#scheduler.running === 0 && this.#scheduler.waiting === 0;
  }

  step(): void {
    const planned = this.#scheduler.plan();
    if (planned.length === 0) return;
    this.#planned = planned;
    this.#current = 0;
    this.#rowsTaken = 0;
    this.#segments.length = 0;
    for (const { segment } of planned) this.#segments.push(segment);
    try {
      this.#options.pass.run(this.#segments, this.#consume);
    } catch (cause) {
      this.#failAll(planned, cause);
      return;
    }
    for (const request of planned) this.#settle(request);
    // Reports come after all requests are settled, because listeners may abort or add requests.
    for (const request of planned) this.#report(request);
  }

  forgetAdapter(id: number): void {
    this.#pool.forgetAdapter(id);
  }

  get stats(): SamplerStats {
    const { running, waiting, promptTokens, cachedTokens, preemptions } = this.#scheduler;
    return {
      running,
      waiting,
      blocksUsed: this.#pool.used,
      blocks: this.#pool.size,
      promptTokens,
      cachedTokens,
      generatedTokens: this.#generatedTokens,
      preemptions,
    };
  }

  readonly #consume = ({ pointer, stride, count }: LogitRows): void => {
    for (let i = 0; i < count; i++) this.#takeRow(pointer + i * stride * 4);
  };

  #takeRow(row: number): void {
    while (this.#rowsTaken >= wantedRows(this.#planned[this.#current]!.segment)) {
      this.#current++;
      this.#rowsTaken = 0;
    }
    const request = this.#planned[this.#current]!;
    const { past, logits, tokens } = request.segment;
    const position = logits === 'all' ? past + this.#rowsTaken : past + tokens.length - 1;
    this.#rowsTaken++;
    if (request.isNotFinite) return;
    if (position < request.length - 1) {
      const scored = this.#chooser.score(row, request.tokens[position + 1]!, request.request.promptLogProbs ?? 0);
      if (scored === null) request.isNotFinite = true;
      else request.promptLogProbs.push(scored);
      return;
    }
    request.chosen = this.#chooser.choose(row, request.plan, request.generated, request.random);
    request.isNotFinite = request.chosen === null;
  }

  /** Applies the pass's results to a request. */
  #settle(request: ActiveRequest): void {
    if (request.isNotFinite) {
      request.table.forget();
      this.#scheduler.remove(request);
      return;
    }
    request.computed += request.segment.tokens.length;
    request.table.list(request.tokens, request.computed);
    if (request.chosen === null) return;
    this.#generatedTokens++;
    request.append(request.chosen);
    this.#judge(request, request.chosen.id);
    if (request.finish === null) return;
    request.text.finish();
    this.#scheduler.remove(request);
  }

  /** Decides whether the token ends the request. Precedence as in vLLM: stop string, end token, stop id, length. */
  #judge(request: ActiveRequest, id: number): void {
    const { ignoreEnd, includeString, tokenIds } = request.request.stop;
    const isEnd = !ignoreEnd && this.#endTokenIds.has(id);
    const isStop = isEnd || tokenIds.includes(id);
    const string = request.text.push(id, isStop && !includeString);
    if (string !== null) request.finish = { finish: 'stop', stopReason: string };
    else if (isStop) request.finish = { finish: 'stop', stopReason: isEnd ? null : id };
    else if (request.length >= request.limit) request.finish = { finish: 'length', stopReason: null };
  }

  #report(request: ActiveRequest): void {
    const { id, streams } = request.request;
    const { chosen, finish } = request;
    request.chosen = null;
    if (request.isNotFinite) {
      this.#fail(request, { code: 'not_finite', message: 'the model computed a NaN or an infinity' });
      return;
    }
    if (chosen !== null && streams && this.#isKnown(request)) this.#options.events.progress(id, request.delta(chosen));
    if (finish === null || !this.#isKnown(request)) return;
    this.#requests.delete(id);
    this.#options.events.finished(id, request.generation(finish));
  }

  /** The pass itself failed, so nothing that it wrote to the cache can be trusted. */
  #failAll(planned: readonly ActiveRequest[], cause: unknown): void {
    for (const request of planned) {
      request.table.forget();
      this.#scheduler.remove(request);
    }
    for (const request of planned) this.#fail(request, { code: 'internal', message: thrownText(cause), cause });
  }

  #fail(request: ActiveRequest, failure: SamplerFailure): void {
    if (!this.#isKnown(request)) return;
    const { id } = request.request;
    this.#requests.delete(id);
    this.#options.events.failed(id, failure);
  }

  /** False once the request was aborted. */
  #isKnown(request: ActiveRequest): boolean {
    return this.#requests.get(request.request.id) === request;
  }
}

function wantedRows({ logits, tokens }: Segment): number {
  return logits === 'all' ? tokens.length : logits === 'last' ? 1 : 0;
}
