/** Trained models and their checkpoints, as clients list them. */
import type { RunFile } from '../../schemas/tinker/checkpoints.ts';
import type { Checkpoint, Checkpoints } from './checkpoints.ts';
import { TinkerRefusal } from './tinker-refusal.ts';

const MOST_LISTED = 1000;
/** As the SDK names kinds. */
const TYPES = { weights: 'training', sampler_weights: 'sampler', external_weights: 'external' } as const;

export function checkpointJson({ kind, name, uri, file }: Checkpoint): object {
  return {
    checkpoint_id: `${kind}/${name}`,
    checkpoint_type: TYPES[kind],
    time: file.time,
    tinker_path: uri,
    size_bytes: file.bytes,
    public: false,
    user_metadata: file.user_metadata ?? null,
    expires_at: file.expires_at ?? null,
  };
}

export async function runJson({ model_id, base_model, lora, created, user_metadata }: RunFile, checkpoints: Checkpoints): Promise<object> {
  const saved = await checkpoints.list(model_id);
  const last = (kind: Checkpoint['kind']) => {
    const found = saved.find((each) => each.kind === kind);
    return found === undefined ? null : checkpointJson(found);
  };
  return {
    training_run_id: model_id,
    base_model,
    model_owner: 'default',
    is_lora: true,
    corrupted: false,
    lora_rank: lora.rank,
    last_request_time: saved[0]?.file.time ?? created,
    last_checkpoint: last('weights'),
    last_sampler_checkpoint: last('sampler_weights'),
    user_metadata: user_metadata ?? null,
  };
}

/** A part of a list, and where it lies in the whole. Throws TinkerRefusal. */
export function page<T>(all: readonly T[], query: (name: string) => string | undefined): { readonly some: readonly T[]; readonly cursor: object } {
  const number = (name: string, otherwise: number) => {
    const value = Number(query(name) ?? otherwise);
    if (!Number.isSafeInteger(value) || value < 0) throw new TinkerRefusal(422, `${name} must be a whole number of at least 0`);
    return value;
  };
  const [limit, offset] = [Math.min(number('limit', 20), MOST_LISTED), number('offset', 0)];
  return { some: all.slice(offset, offset + limit), cursor: { offset, limit, total_count: all.length } };
}
