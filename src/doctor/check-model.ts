/** Checks that the worker and vLLM can load the base model's folder: it needs a configuration, a tokenizer, and complete safetensors instead of pickles. */
import { closeSync, existsSync, readdirSync, readSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { jsonObjectAt, modelFacts } from '../files/model-facts.ts';
import { ConfigError } from '../core/errors.ts';
import { openRegularFileSync } from '../files/regular-file.ts';
import { type ModelShape, readModelShape } from '../launch/model-shape.ts';
import { assertStartAdapter } from '../trainer/gradients/assert-start-adapter.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import { shellCommand } from '../reports/text/own-command.ts';
import { bytesText } from '../reports/text/number-text.ts';
import { type Finding, missing, ok, warning } from './finding.ts';

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

export function checkModel(path: string): ModelCheck {
  const nothing = { bytes: null, shape: null, window: null };
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined && /^[\w.-]+\/[\w.-]+$/.test(path)) {
    const download = shellCommand(['hf', 'download', path, '--local-dir', path]);
    return {
      ...nothing,
      findings: [warning('model', `there is no folder ${path}, so the run treats it as a hub id and downloads the model at its start`, download)],
    };
  }
  if (stat?.isDirectory() !== true) {
    return { ...nothing, findings: [missing('model', `${path} is not a folder`, 'set [model].path to a Hugging Face model folder or a hub id')] };
  }
  const { config, contextLength: window } = modelFacts(path);
  const bytes = weightFiles(path).reduce((sum, name) => sum + (statSync(join(path, name), { throwIfNoEntry: false })?.size ?? 0), 0);
  const findings = [configFinding(path, config, bytes), tokenizerFinding(path), ...weightFindings(path)];
  return { findings, bytes, shape: config === null ? null : readModelShape(path), window };
}

export async function checkInitialAdapter(path: string, lora: TrainingConfig['lora'], base: string): Promise<Finding> {
  try {
    await assertStartAdapter(path, lora, base);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return missing('adapter', error.message, 'name another adapter in [model].initial_adapter, or change [lora] as it says');
  }
  return ok('adapter', `${path}, rank ${lora.rank}`);
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

/** The format: eight bytes with the length of the header, the header as JSON, then the tensors up to the end of the last one. */
function isSafetensors(path: string): boolean {
  const { size } = statSync(path);
  let file: number | null = null;
  try {
    file = openRegularFileSync(path);
    const length = Buffer.alloc(8);
    if (readSync(file, length, 0, 8, 0) < 8 || length.readBigUInt64LE() > BigInt(size - 8)) return false;
    const header = Buffer.alloc(Number(length.readBigUInt64LE()));
    readSync(file, header, 0, header.length, 8);
    const tensors = Object.entries(JSON.parse(header.toString('utf8')) as Record<string, { data_offsets?: [number, number] }>);
    return 8 + header.length + Math.max(0, ...tensors.map(([, { data_offsets: offsets }]) => offsets?.[1] ?? 0)) === size;
  } catch {
    // A header that is not JSON.
    return false;
  } finally {
    if (file !== null) closeSync(file);
  }
}
