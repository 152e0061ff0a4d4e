/** The policy without its adapter, or as it was at the start of the run, at a training service: a second model that is never trained, or the base's log-probs of a prompt. */
import { ConfigError } from '../../../core/errors.ts';
import type { SamplingSession } from '../../../tinker/service/sampling-session.ts';
import type { ServiceModel } from '../../../tinker/service/service-model.ts';
import type { NewModel, ServiceSession } from '../../../tinker/service/service-session.ts';
import { TinkerError } from '../../../tinker/service/tinker-error.ts';
import type { PassSequence } from './pass-data.ts';

export interface TinkerReferenceParts {
  readonly session: ServiceSession;
  readonly sampling: SamplingSession;
  readonly model: NewModel;
  /** The `tinker://` path of the state that the run starts from; null starts from the base. */
  readonly initial: string | null;
  /** A model that nothing has trained, if there is one already. */
  readonly untrained: ServiceModel | null;
}

export class TinkerReference {
  readonly #parts: TinkerReferenceParts;
  /** Null where the service has no place for it. */
  #base: Promise<ServiceModel | null> | null;
  #initial: Promise<ServiceModel | null> | null = null;

  constructor(parts: TinkerReferenceParts) {
    this.#parts = parts;
    this.#base = parts.untrained === null ? null : Promise.resolve(parts.untrained);
  }

  /** The model to pass through; null if only `promptLogProbs` are to be had. */
  model(adapter: 'off' | 'initial', signal: AbortSignal): Promise<ServiceModel | null> {
    const { model, initial } = this.#parts;
    if (adapter === 'off' || initial === null) return (this.#base ??= this.#opened({ ...model, rank: 1 }, null, signal));
    return (this.#initial ??= this.#opened(model, initial, signal));
  }

  async #opened(asked: NewModel, state: string | null, signal: AbortSignal): Promise<ServiceModel | null> {
    const { session } = this.#parts;
    try {
      const model = await session.createModel(asked, signal);
      if (state !== null) await model.load(state, signal);
      return model;
    } catch (error) {
      if (!(error instanceof TinkerError) || error.isGone || error.status === null || error.status >= 500) throw error;
      if (state !== null)
        throw new ConfigError(`The training service has no place for a second model, the policy at the start of the run: ${error.message}`, {
          cause: error,
        });
      session.connection.notice(`the training service takes no second model, so the base's log-probs come from its sampler: ${error.message}`);
      return null;
    }
  }

  /** The base's log-probs of the targets, as those of a prompt. */
  async promptLogProbs({ ids, places }: PassSequence, signal: AbortSignal): Promise<Float32Array> {
    const { sampling, model } = this.#parts;
    const { promptLogProbs } = await sampling.sample({
      weights: { baseModel: model.baseModel },
      prompt: ids,
      maxTokens: 1,
      temperature: 1,
      hasPromptLogProbs: true,
      signal,
    });
    if (promptLogProbs === null) throw new TinkerError('The training service returns no log-probs of prompts, and has no place for a second model');
    return Float32Array.from(places, (place) => promptLogProbs[place + 1]!);
  }
}
