/** A model that a client trains: passes with a loss, steps of Adam, and its state in files. Its requests run one at a time. */
import { join } from 'node:path';
import { adamProblem, type AdamOptions } from '../../core/adam-options.ts';
import { GradientError } from '../../core/errors.ts';
import type { RunFile } from '../../schemas/tinker/checkpoints.ts';
import { assertRow, builtInLoss } from '../../tinker/built-in-losses.ts';
import type { PassOutput, TrainingDatum, TrainingPass } from '../../tinker/wire/training-pass.ts';
import { WireError } from '../../tinker/wire/wire-error.ts';
import { floatRow } from '../../tinker/wire/wire-tensor.ts';
import type { GradientBackend } from '../../trainer/gradient-backend.ts';
import type { Checkpoint } from './checkpoints.ts';
import { dataBatch, type DataSequence } from './data-batch.ts';
import { NumberedRequests } from './numbered-requests.ts';
import { TinkerRefusal } from './tinker-refusal.ts';

/** Of a backend that does not know its own limit. */
const BATCH_TOKENS = 16_384;

export interface TrainedModelOptions {
  readonly run: RunFile;
  readonly sessionId: string;
  readonly backend: GradientBackend;
  /** Opens another backend of the same adapter, with weights from a PEFT directory. */
  readonly reopen: (initial: string) => Promise<GradientBackend>;
  readonly maxModelLen: number;
  readonly vocabularySize: number;
  /** Ends what runs. */
  readonly signal: AbortSignal;
}

export class TrainedModel {
  readonly run: RunFile;
  readonly sessionId: string;
  readonly requests = new NumberedRequests();
  readonly #options: TrainedModelOptions;
  #backend: GradientBackend;
  /** Why the gradient of this step is incomplete; null while it is whole. */
  #fault: string | null = null;
  #closed: Promise<void> | null = null;
  /** Time of the last request, for listings. */
  lastRequest = new Date();

  constructor(options: TrainedModelOptions) {
    this.run = options.run;
    this.sessionId = options.sessionId;
    this.#options = options;
    this.#backend = options.backend;
  }

  /** Rejects with WireError for data that do not fit the model or the loss; then the gradient is as it was. */
  async pass({ lossFn, lossConfig, isForwardOnly, data }: TrainingPass): Promise<PassOutput> {
    const loss = builtInLoss(lossFn, lossConfig);
    if (data.length === 0) throw new WireError('data must have at least one datum.');
    const sequences = data.map((datum, i) => {
      const place = `data[${i}]`;
      const input = this.#input(datum, place);
      // Finds what is wrong with the inputs of the loss before anything is computed, and which targets have no part in it.
      const { losses, gradient } = loss(datum, new Float32Array(input.targetIds.length), place);
      const isIdle = Uint8Array.from(losses, (value, t) => Number(isForwardOnly || (value === 0 && gradient[t] === 0)));
      return { ...input, datum, place, isIdle };
    });
    const outputs: PassOutput['data'][number][] = [];
    let sum = 0;
    let added = 0;
    try {
      await this.#inBatches(sequences, async (some) => {
        const { batch, places } = dataBatch(some);
        const { batchId, logProbs } = await this.#backend.forward(batch, { retain: !isForwardOnly, adapter: 'on', signal: this.#options.signal });
        const gradient = new Float32Array(logProbs.length);
        const found = some.map(({ datum, isIdle, place }, i) => {
          const own = Float32Array.from(places[i]!, (at) => logProbs[at]!);
          const tokens = loss(datum, own, place);
          for (const [t, at] of places[i]!.entries()) if (isIdle[t] === 0) gradient[at] = tokens.gradient[t]!;
          return { own, losses: tokens.losses };
        });
        if (!isForwardOnly) await this.#backend.backward(batchId, { dLogProbs: gradient });
        if (!isForwardOnly) added++;
        for (const { own, losses } of found) {
          sum += losses.reduce((total, value) => total + value, 0);
          outputs.push({ logprobs: floatRow(own), elementwise_loss: floatRow(Float32Array.from(losses)) });
        }
      });
    } catch (error) {
      // A part of the data has been added, and a step on it would be another step than the client asked for.
      if (added > 0)
        this.#fault = `a pass over ${data.length} data failed after some of them had been added to the gradient: ${(error as Error).message}`;
      throw error;
    }
    return { data: outputs, metrics: { 'loss:sum': sum } };
  }

  /** Returns the norm of the gradient. */
  async step(options: AdamOptions): Promise<{ readonly gradNorm: number }> {
    const problem = adamProblem(options);
    if (problem !== null) throw new TinkerRefusal(400, problem);
    if (this.#fault !== null) {
      const text = this.#fault;
      this.#fault = null;
      await this.#backend.zeroGrad();
      throw new TinkerRefusal(400, `No step was taken and the gradient was cleared, because ${text}`);
    }
    const { gradNorm, skipped } = await this.#backend.optimStep(options);
    if (skipped)
      throw new GradientError('No step was taken and the gradient was cleared, because it held NaN or an infinity', { code: 'not_finite' });
    return { gradNorm };
  }

  /** Writes `state` and `adapter` into the folder. */
  async saveState(folder: string): Promise<void> {
    await this.#backend.saveState(join(folder, 'state'));
    await this.saveAdapter(folder);
  }

  /** Writes `adapter`, in PEFT's form, into the folder. */
  async saveAdapter(folder: string): Promise<void> {
    await this.#backend.saveAdapter(join(folder, 'adapter'));
  }

  /** Continues from a checkpoint of the same adapter: with its state of Adam, or without. */
  async load({ folder, kind, uri }: Checkpoint, withOptimizer: boolean): Promise<void> {
    if (withOptimizer && kind !== 'weights')
      throw new TinkerRefusal(400, `${uri} is for samplers and has no state of the optimizer; load one of weights/`);
    if (withOptimizer) await this.#backend.loadState(join(folder, 'state'));
    else {
      const fresh = await this.#options.reopen(join(folder, 'adapter'));
      await this.#backend.close();
      this.#backend = fresh;
    }
    this.#fault = null;
  }

  /** Once the request that runs has ended. */
  close(): Promise<void> {
    this.#closed ??= this.requests.end().then(() => this.#backend.close());
    return this.#closed;
  }

  #input(datum: TrainingDatum, place: string): Pick<DataSequence, 'ids' | 'targetIds'> {
    const { maxModelLen, vocabularySize } = this.#options;
    const input: number[] = [];
    for (const [i, chunk] of datum.input.entries()) {
      if (chunk.kind !== 'text') throw new WireError(`${place}.model_input.chunks[${i}] is ${chunk.kind}, and this model reads text only.`);
      for (const id of chunk.tokens) input.push(id);
    }
    const targets = datum.lossInputs['target_tokens'];
    if (targets === undefined) throw new WireError(`${place}.loss_fn_inputs.target_tokens is missing.`);
    if (targets.dtype !== 'int64') throw new WireError(`${place}.loss_fn_inputs.target_tokens must be int64.`);
    if (input.length === 0) throw new WireError(`${place}.model_input has no token.`);
    assertRow(targets, input.length, `${place}.loss_fn_inputs.target_tokens`);
    if (input.length >= maxModelLen)
      throw new WireError(`${place} has ${input.length} tokens; this server trains at most ${maxModelLen - 1} at a time.`);
    const stranger = [...input, ...targets.values].find((id) => id < 0 || id >= vocabularySize);
    if (stranger !== undefined) throw new WireError(`${place} has the token ${stranger}; those of the model are 0 to ${vocabularySize - 1}.`);
    return { ids: Int32Array.of(...input, 0), targetIds: targets.values };
  }

  /** As many sequences at a time as fit, in order. */
  async #inBatches(sequences: readonly DataSequence[], use: (some: readonly DataSequence[]) => Promise<void>): Promise<void> {
    let budget = Math.min(this.#backend.capabilities.maxTokens, BATCH_TOKENS);
    for (let from = 0; from < sequences.length;) {
      let [to, tokens] = [from, 0];
      while (to < sequences.length && (to === from || tokens + sequences[to]!.ids.length <= budget)) tokens += sequences[to++]!.ids.length;
      const some = sequences.slice(from, to);
      try {
        await use(some);
        from = to;
      } catch (error) {
        const isTooMuch = error instanceof GradientError && error.code === 'out_of_memory' && some.length > 1;
        if (!isTooMuch) throw error;
        budget = Math.floor(tokens / 2);
      }
    }
  }
}
