/** Checks that training can start from an adapter, by its small files alone: before a worker, a server or an engine is started. Both gradient backends ask it. */
import type { ByteSource } from '../../files/byte-source.ts';
import { EngineInputError } from '../engine-errors.ts';
import { type AdapterSettings, assertTargeted, isNamed, readAdapterSettings } from './adapter-settings.ts';
import { ADAPTER_CONFIG, ADAPTER_WEIGHTS, assertNoneMissing, checkFolder, type LayerFit, readAdaptedPaths } from './read-adapter.ts';

export interface StartWish {
  readonly rank: number;
  readonly alpha: number;
  /** Last names of linear layers: `q_proj`, ... */
  readonly targets: readonly string[];
  /** Layers of the base. @default unknown: an adapter that may leave some out is refused */
  readonly layers?: number;
  /** Sizes of the base's linear layers. @default unknown: shapes are left to what loads the adapter */
  readonly sizesOf?: LayerFit['sizesOf'];
}

/** α · √r without the flag is the same number but for rounding, and a user copies it from the message. */
const SAME_SCALE = 1e-6;

/** Rejects with EngineInputError unless the adapter is plain LoRA of this rank, scale and targets, in every layer, and fits them; the message names the setting to change. */
export async function assertStarts(
  source: ByteSource,
  { rank, alpha, targets, layers, sizesOf }: StartWish,
  { maxRank = Infinity } = {},
): Promise<void> {
  await checkFolder(source);
  const refuse = (key: string, its: number | string, wanted: number | string, setting = its): never => {
    throw new EngineInputError(
      `The adapter in ${source.path} has ${key} ${its}, but this trainer has ${wanted}. Set lora.${key} to ${setting}, or give another adapter.`,
    );
  };
  const found = await readAdapterSettings(source, ADAPTER_CONFIG, { maxRank });
  if (found.rank !== rank) refuse('rank', found.rank, rank);
  const isStabilised = found.scale !== found.alpha / found.rank;
  const plainAlpha = isStabilised ? found.scale * rank : found.alpha;
  if (Math.abs(plainAlpha / alpha - 1) > SAME_SCALE) {
    const its = isStabilised ? `${found.alpha} with rsLoRA (use_rslora), which is ${Number(plainAlpha.toPrecision(10))} of plain LoRA` : plainAlpha;
    refuse('alpha', its, alpha, Number(plainAlpha.toPrecision(10)));
  }
  const paths = await readAdaptedPaths(source, sizesOf === undefined ? null : { rank, scale: found.scale, sizesOf });
  const weights = source.pathOf(ADAPTER_WEIGHTS);
  assertTargeted(found, paths, weights);
  // Without a field that leaves layers out, each target has tensors in every layer.
  if (found.partialBy === null) assertNoneMissing(weights, missingPaths(paths, found, layers));
  const its = [...new Set(paths.map((path) => path.slice(path.lastIndexOf('.') + 1)))].toSorted();
  if (JSON.stringify(its) !== JSON.stringify(targets.toSorted())) refuse('targets', JSON.stringify(its), JSON.stringify(targets.toSorted()));
  const isWhole = paths.length === (layers ?? 0) * its.length && (found.layers === null || new Set(found.layers).size === layers);
  if (layers === undefined ? found.partialBy === null : isWhole) return;
  throw new EngineInputError(
    `The adapter in ${source.path} adapts some layers only (${found.partialBy ?? 'target_modules'}), but this trainer adapts every layer. Merge it into its base (PEFT: merge_and_unload) and train the merged model, or give another adapter.`,
  );
}

const LAYER = /\blayers\.\d+\./;

/** The layers of the base that lack tensors of a module that others have, and the targets that no layer has. @param layers of the base; undefined: those of the file */
function missingPaths(paths: readonly string[], { targets, pattern }: AdapterSettings, layers = 0): string[] {
  const present = new Set(paths);
  const numbers = new Set([...Array(layers).keys(), ...paths.flatMap((path) => /\blayers\.(\d+)\./.exec(path)?.[1] ?? []).map(Number)]);
  const inLayers = new Set(paths.filter((path) => LAYER.test(path)).map((path) => path.replace(LAYER, 'layers.*.')));
  const wanted = [...inLayers].flatMap((path) => [...numbers].map((number) => path.replace('layers.*.', `layers.${number}.`)));
  const isWanted = (path: string) => (targets !== null || pattern?.test(path) === true) && !present.has(path);
  return [...wanted.filter(isWanted), ...(targets ?? []).filter((target) => !paths.some((path) => isNamed(path, target)))];
}
