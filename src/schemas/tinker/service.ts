/** The requests of the Tinker API other than passes and samples, which are JSON in every version. Unknown keys are allowed: every release adds some. */
import type { XStatic } from 'typebox/schema';
import { atLeastOne, byName, count, flag, integer, listOf, nullable, number, object, text } from '../json-schema.ts';

export const anySchema = object({});
const metadata = nullable(byName(text));
const ttl = nullable(atLeastOne);

export const createSessionSchema = object({}, { user_metadata: metadata });
export const sessionSchema = object({ session_id: text });
export const createModelSchema = object(
  { session_id: text, model_seq_id: count, base_model: text },
  {
    lora_config: nullable(object({ rank: atLeastOne }, { seed: nullable(integer), train_unembed: flag, train_mlp: flag, train_attn: flag })),
    optimizer_config: nullable(object({}, { type: text })),
    user_metadata: metadata,
  },
);
export const modelSchema = object({ model_id: text });
export const optimStepSchema = object(
  {
    model_id: text,
    adam_params: object({}, { learning_rate: number, beta1: number, beta2: number, eps: number, weight_decay: number, grad_clip_norm: number }),
  },
  { seq_id: nullable(count) },
);
export const saveWeightsSchema = object(
  { model_id: text },
  { path: nullable(text), seq_id: nullable(count), ttl_seconds: ttl, overwrite: flag, user_metadata: metadata },
);
export const saveSamplerSchema = object(
  { model_id: text },
  {
    path: nullable(text),
    sampling_session_seq_id: nullable(count),
    seq_id: nullable(count),
    kind: nullable(text),
    ttl_seconds: ttl,
    overwrite: flag,
    user_metadata: metadata,
  },
);
/** Into a model, or with `session_id` and `model_seq_id` into a new one. */
export const loadWeightsSchema = object(
  { path: text },
  {
    model_id: nullable(text),
    session_id: nullable(text),
    model_seq_id: nullable(count),
    base_model: nullable(text),
    optimizer: flag,
    seq_id: nullable(count),
    user_metadata: metadata,
  },
);
export const saveExternalSchema = object(
  { model_id: text, path: text },
  { seq_id: nullable(count), ttl_seconds: ttl, age_encryption_recipients: nullable(listOf(text)) },
);
export const ttlSchema = object({ ttl_seconds: ttl });
export const createSamplingSessionSchema = object(
  { session_id: text, sampling_session_seq_id: count },
  { base_model: nullable(text), model_path: nullable(text) },
);
export const retrieveFutureSchema = object({ request_id: text });
export const weightsInfoSchema = object({ tinker_path: text });

export type CreateModel = XStatic<typeof createModelSchema>;
export type OptimStep = XStatic<typeof optimStepSchema>;
export type SaveWeights = XStatic<typeof saveWeightsSchema>;
export type SaveSampler = XStatic<typeof saveSamplerSchema>;
export type SaveExternal = XStatic<typeof saveExternalSchema>;
export type LoadWeights = XStatic<typeof loadWeightsSchema>;
export type CreateSamplingSession = XStatic<typeof createSamplingSessionSchema>;
