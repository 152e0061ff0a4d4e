/** The files of `vf-serve tinker` that say what its folders hold. */
import type { XStatic } from 'typebox/schema';
import { atLeastOne, byName, count, flag, integer, nullable, object, text } from '../json-schema.ts';

/** The LoRA of a trained model. */
const loraSchema = object({ rank: atLeastOne, seed: integer, train_attn: flag, train_mlp: flag, train_unembed: flag });
/** `run.json` of a trained model. */
export const runFileSchema = object({ model_id: text, base_model: text, lora: loraSchema, created: text }, { user_metadata: nullable(byName(text)) });
/** `checkpoint.json`, next to what it describes. */
export const checkpointFileSchema = object({ time: text, bytes: count }, { expires_at: nullable(text), user_metadata: nullable(byName(text)) });

export type RunFile = XStatic<typeof runFileSchema>;
export type CheckpointFile = XStatic<typeof checkpointFileSchema>;
