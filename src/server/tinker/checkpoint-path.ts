/** `tinker://MODEL/weights/NAME`, and the same with `sampler_weights` or `external_weights`: where a checkpoint is, as clients name it. */
import { TinkerRefusal } from './tinker-refusal.ts';

/** `weights`: with Adam's state, to train on. `sampler_weights`: to sample from. `external_weights`: to fetch as files. */
export const CHECKPOINT_KINDS = ['weights', 'sampler_weights', 'external_weights'] as const;
export type CheckpointKind = (typeof CHECKPOINT_KINDS)[number];

export interface CheckpointPath {
  readonly modelId: string;
  readonly kind: CheckpointKind;
  readonly name: string;
}

/** Names become folders. */
const NAME = /^[A-Za-z0-9_][\w.-]{0,127}$/;
/** As `modelIdOf` makes one. */
const MODEL_ID = /^[A-Za-z0-9_][\w-]{0,63}(?::train:\d{1,9})?$/;
const SCHEME = 'tinker://';

export function checkpointUri({ modelId, kind, name }: CheckpointPath): string {
  return `${SCHEME}${modelId}/${kind}/${name}`;
}

/** Throws TinkerRefusal for anything else. */
export function parseCheckpointUri(uri: string): CheckpointPath {
  const [modelId = '', kind = '', name = '', ...more] = uri.startsWith(SCHEME) ? uri.slice(SCHEME.length).split('/') : [];
  if (!isKind(kind) || !MODEL_ID.test(modelId) || more.length > 0)
    throw new TinkerRefusal(
      400,
      `A path must be ${SCHEME}MODEL/weights/NAME or ${SCHEME}MODEL/sampler_weights/NAME, got ${JSON.stringify(uri.slice(0, 200))}`,
    );
  return { modelId, kind, name: checkpointName(name) };
}

/** Throws TinkerRefusal for a name that cannot be a folder's. */
export function checkpointName(name: string): string {
  if (NAME.test(name) && !name.endsWith('.tmp')) return name;
  throw new TinkerRefusal(
    400,
    `The name of a checkpoint must have 1 to 128 letters, digits, dots, dashes and underscores, got ${JSON.stringify(name.slice(0, 200))}`,
  );
}

export function isKind(kind: string): kind is CheckpointKind {
  return (CHECKPOINT_KINDS as readonly string[]).includes(kind);
}

/** The name of a model's folder, which is one part of a path on every system. Null if the text is not a model's id. */
export function modelFolder(modelId: string): string | null {
  return MODEL_ID.test(modelId) ? modelId.replaceAll(':', '.') : null;
}

/** As the SDK derives it too. */
export function modelIdOf(sessionId: string, number: number): string {
  return `${sessionId}:train:${number}`;
}
