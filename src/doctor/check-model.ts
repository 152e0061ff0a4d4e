/** Checks that the worker and vLLM can load the base model's folder: it needs a configuration, a tokenizer, and complete safetensors instead of pickles. */
import { closeSync, existsSync, readdirSync, readSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { hubCacheFolder } from '../data/hub-cache.ts';
import { isOffline, namesakeProblem, parseHubModel } from '../data/hub-model.ts';
import { readJson } from '../core/read-json.ts';
import { jsonObjectAt } from '../files/json-file.ts';
import { modelFacts } from '../files/model-facts.ts';
import { ConfigError } from '../core/errors.ts';
import { openRegularFileSync, statIfThere } from '../files/regular-file.ts';
import { type ModelShape, parameterCount, readModelShape } from '../launch/model-shape.ts';
import { type CheckedAdapter, checkInitialAdapter } from '../sessions/training/check-initial-adapter.ts';
import { modelFolder } from '../sessions/policy/model-folder.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import { shellCommand } from '../reports/text/own-command.ts';
import { bytesText } from '../reports/text/number-text.ts';
import { type Finding, missing, ok, skipped, warning } from '../sessions/finding.ts';

/** `path`: the model's folder, whose hub id is not known here. */
function fetchAgain(path: string): string {
  return `download the whole model into this folder: hf download ORGANISATION/${basename(path)} --local-dir ${shellCommand([path])}`;
}

export interface ModelCheck {
  readonly findings: readonly Finding[];
  /** Size of the weight files; null if they are not here. */
  readonly bytes: number | null;
  readonly shape: ModelShape | null;
  /** Context window in tokens, from config.json. */
  readonly window: number | null;
}

type Variables = Readonly<Record<string, string | undefined>>;

/** @param asked a folder, a bundled name, or an id on the hub, which is looked for in the hub's cache */
export function checkModel(asked: string, variables: Variables): ModelCheck {
  const path = modelFolder(asked, variables);
  const nothing = { bytes: null, shape: readModelShape(path), window: null };
  const stat = statIfThere(path);
  if (stat === undefined && parseHubModel(path) !== null && namesakeProblem(path) === null)
    return { ...nothing, findings: [absentFinding(path, nothing.shape, variables)] };
  if (stat?.isDirectory() !== true) {
    return {
      ...nothing,
      findings: [missing('model', namesakeProblem(path) ?? `${path} is not a folder`, 'set [model].path to a Hugging Face model folder or a hub id')],
    };
  }
  const { config, contextLength: window } = modelFacts(path);
  const bytes = weightFiles(path).reduce((sum, name) => sum + (statSync(join(path, name), { throwIfNoEntry: false })?.size ?? 0), 0);
  const findings = [configFinding(path, config, bytes), tokenizerFinding(path), ...weightFindings(path)];
  return { findings, bytes, shape: config === null ? null : nothing.shape, window };
}

/** An id of the hub that is not in its cache. The hub itself is not asked. */
export function absentFinding(id: string, shape: ModelShape | null, variables: Variables): Finding {
  const where = `${id} is neither a folder nor in the hub's cache (${hubCacheFolder(variables)})`;
  const download = shellCommand(['hf', 'download', id.replace(/@.*/, '')]);
  if (isOffline(variables)) return missing('model', `${where}; HF_HUB_OFFLINE keeps the run from downloading it`, download);
  const size = shape === null ? 'of unknown size' : `about ${bytesText(2 * parameterCount(shape))}`;
  return warning('model', `${where}. The hub was not asked: the run downloads the model from there at its start (${size})`, download);
}

/** Null for a run that starts with a new adapter. */
export async function initialAdapterFinding(config: Pick<TrainingConfig, 'model' | 'lora'>, variables: Variables): Promise<Finding | null> {
  try {
    return adapterFinding(config, await checkInitialAdapter(config, variables));
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return missing('adapter', error.message, 'name another adapter in [model].initial_adapter, or change [lora] as it says');
  }
}

/** Of an adapter that the run can start from. */
export function adapterFinding({ model, lora }: Pick<TrainingConfig, 'model' | 'lora'>, checked: CheckedAdapter | null): Finding | null {
  if (checked === null) return null;
  const { isCompared, notice } = checked;
  if (notice !== null) return warning('adapter', notice, "set [model].path to the adapter's own base");
  const text = `${model.initialAdapter}, rank ${lora.rank}`;
  if (!isCompared) return skipped('adapter', `${text}: its sizes were not compared with those of the base, which is not on this machine`);
  return ok('adapter', `${text}, fits ${basename(model.path)}`);
}

function configFinding(path: string, config: Readonly<Record<string, unknown>> | null, bytes: number): Finding {
  if (config === null) return missing('model', `${path} has no readable config.json`, fetchAgain(path));
  const { model_type: type } = config;
  return ok('model', `${path}: ${typeof type === 'string' ? type : 'of unknown type'}, ${bytesText(bytes)}`);
}

function tokenizerFinding(path: string): Finding {
  if (existsSync(join(path, 'tokenizer.json'))) return ok('tokenizer', 'tokenizer.json');
  return missing('tokenizer', `${path} has no tokenizer.json`, fetchAgain(path));
}

function weightFindings(path: string): Finding[] {
  const here = weightFiles(path);
  const pickles = readdirSync(path).filter(
    (name) => /\.(bin|pt|pth|ckpt)$/.test(name) && !/^(training_args|optimizer|scheduler|rng_state)/.test(name),
  );
  if (here.length === 0) {
    const found = pickles.length === 0 ? 'no weights' : `only pickles (${pickles.join(', ')}), which can run code and are never loaded`;
    return [missing('weights', `${path} has ${found}`, 'download the model as safetensors, or convert it: model.save_pretrained(folder)')];
  }
  const wanted = new Set(Object.values((jsonObjectAt(join(path, 'model.safetensors.index.json'))?.['weight_map'] ?? {}) as Record<string, string>));
  const absent = [...wanted].filter((name) => !here.includes(name));
  const broken = here.filter((name) => !isSafetensors(join(path, name)));
  if (absent.length > 0) return [missing('weights', `${path} lacks ${absent.join(', ')}`, fetchAgain(path))];
  if (broken.length > 0) {
    return [missing('weights', `${broken.join(', ')}: not valid safetensors (a Git LFS pointer, or truncated)`, fetchAgain(path))];
  }
  return [ok('weights', `${here.length === 1 ? here[0] : `${here.length} files`}, safetensors`)];
}

function weightFiles(path: string): string[] {
  return readdirSync(path).filter((name) => name.endsWith('.safetensors'));
}

/** The limit of the format's own library. */
const MOST_HEADER_BYTES = 100_000_000;

/** The format: eight bytes with the length of the header, the header as JSON, then the tensors up to the end of the last one. */
function isSafetensors(path: string): boolean {
  const { size } = statSync(path);
  let file: number | null = null;
  try {
    file = openRegularFileSync(path);
    const length = Buffer.alloc(8);
    if (readSync(file, length, 0, 8, 0) < 8 || length.readBigUInt64LE() > BigInt(Math.min(size - 8, MOST_HEADER_BYTES))) return false;
    const header = Buffer.alloc(Number(length.readBigUInt64LE()));
    readSync(file, header, 0, header.length, 8);
    const tensors = Object.entries(readJson(header.toString('utf8')) as Record<string, { data_offsets?: [number, number] }>);
    return 8 + header.length + Math.max(0, ...tensors.map(([, { data_offsets: offsets }]) => offsets?.[1] ?? 0)) === size;
  } catch {
    // A header that is not JSON.
    return false;
  } finally {
    if (file !== null) closeSync(file);
  }
}
