/** `tinker.json`, in the folders of a checkpoint whose weights stay at a training service. */
import type { XStatic } from 'typebox/schema';
import { choice, closed, count, filledText, number, only, textOrNull } from '../json-schema.ts';

export const remoteWeightsSchema = closed({
  format: only('vf-search tinker 1'),
  /** `state`: adapter and Adam's moments, to train on. `adapter`: to sample from. */
  kind: choice('state', 'adapter'),
  /** `tinker://…` */
  path: filledText,
  /** The service's URL without secrets. */
  service: filledText,
  base_model: filledText,
  rank: count,
  alpha: number,
  /** Adam steps taken so far. */
  steps: count,
  /** ISO 8601. */
  saved_at: filledText,
  /** When the service may delete it; null if it was asked to keep it. */
  expires_at: textOrNull,
});

export type RemoteWeights = XStatic<typeof remoteWeightsSchema>;
