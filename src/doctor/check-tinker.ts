/** Checks the training service of a run: its key, its base, and the log-probs that every publish is compared by. Samples one token. */
import { VfError } from '../core/errors.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import { type Finding, missing, ok } from '../sessions/finding.ts';
import { openTinkerService } from '../sessions/training/tinker-service.ts';

export interface TinkerCheckOptions {
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

/** Short, because the user waits for the result. */
const ANSWER_MS = 60_000;
const NAME = 'tinker';
const REMEDY = 'start the service, or correct backend.base_url, backend.model and the key';

export async function checkTinker(
  config: Pick<TrainingConfig, 'backend' | 'model'>,
  { variables, signal: caller }: TinkerCheckOptions,
): Promise<Finding> {
  const signal = AbortSignal.any([caller, AbortSignal.timeout(ANSWER_MS)]);
  try {
    await using service = await openTinkerService({ config, variables, secrets: new Set(), note: () => {}, signal });
    const { sampling, baseModel, connection } = service;
    const asked = { weights: { baseModel }, prompt: Int32Array.of(0, 1), maxTokens: 1, temperature: 1, hasPromptLogProbs: true, signal };
    const { promptLogProbs } = await sampling.sample(asked);
    if (promptLogProbs === null)
      return missing(NAME, `${connection.url} returns no log-probs of prompts`, 'use a service that does: published weights are compared by them');
    return ok(NAME, `${connection.url} samples ${baseModel}, and returns log-probs of prompts`);
  } catch (error) {
    caller.throwIfAborted();
    if (!(error instanceof VfError)) throw error;
    return missing(NAME, error.message, REMEDY);
  }
}
