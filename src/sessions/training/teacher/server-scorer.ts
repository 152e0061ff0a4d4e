/** Log-probs of given tokens from vLLM or vf-serve policy, by `prompt_logprobs` of /v1/completions: one request for each sequence. */
import { LoraReplica, type LoraReplicaOptions } from '../../../trainer/publisher/lora-routes.ts';
import type { TokenScorer } from '../../../trainer/teacher.ts';
import type { TokenPart } from '../../../trainer/trajectory-branches.ts';

export interface ServerScorerOptions extends LoraReplicaOptions {
  /** The server's name of the model or the adapter. */
  readonly model: string;
  /** The server's limit of prompt and completion, in tokens; null if it does not say. */
  readonly maxModelLen: number | null;
  /** Requests at once, from 1. */
  readonly maxConcurrent: number;
}

export class ServerScorer implements TokenScorer {
  readonly #replica: LoraReplica;
  readonly #options: ServerScorerOptions;

  constructor(options: ServerScorerOptions) {
    this.#replica = new LoraReplica(options);
    this.#options = options;
  }

  /** NaN for a sequence that the server's window does not hold, and for a token whose log-prob it leaves out. */
  async score(sequences: readonly TokenPart[], signal: AbortSignal): Promise<readonly Float64Array[]> {
    const found: Float64Array[] = [];
    const waiting = sequences.entries();
    const work = async () => {
      for (const [place, sequence] of waiting) found[place] = await this.#scoreOne(sequence, signal);
    };
    await Promise.all(Array.from({ length: Math.min(this.#options.maxConcurrent, sequences.length) }, work));
    return found;
  }

  close(): Promise<void> {
    return this.#replica.close();
  }

  async #scoreOne({ ids, targets }: TokenPart, signal: AbortSignal): Promise<Float64Array> {
    const { model, maxModelLen } = this.#options;
    const end = (targets.at(-1) ?? -1) + 1;
    // The server samples a token behind the prompt.
    if (end === 0 || end >= (maxModelLen ?? Infinity)) return new Float64Array(targets.length).fill(NaN);
    const judged = await this.#replica.judgedPrompt({ model }, { ids: ids.subarray(0, end) }, [...targets], signal);
    return Float64Array.from(judged, (logProb) => logProb ?? NaN);
  }
}
