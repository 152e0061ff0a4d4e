/** Passes that may be larger than a request. */
import type { ServiceModel, Submitted } from '../../../tinker/service/service-model.ts';
import type { PassOutput, TrainingDatum } from '../../../tinker/wire/training-pass.ts';
import { chunksOf } from './pass-data.ts';

export interface SentPass {
  readonly lossFn: string;
  readonly data: readonly TrainingDatum[];
  readonly isForwardOnly: boolean;
}

/** Submits a pass in as many requests as it needs; none of them is awaited. */
export async function submitAll(model: ServiceModel, { data, ...pass }: SentPass, signal: AbortSignal): Promise<Submitted<PassOutput>[]> {
  const submitted: Submitted<PassOutput>[] = [];
  for (const chunk of chunksOf(data)) submitted.push(await model.pass({ ...pass, lossConfig: {}, data: chunk }, signal));
  return submitted;
}
