/** Turns the values of `vf-train`'s options into layers of a training's configuration. Knows no defaults and reads no files. */
import { ConfigError } from '../../core/errors.ts';
import { isTemplateField } from '../../core/sampling.ts';
import { nestedTable } from '../../schemas/config-keys.ts';
import type { TrainingRequest } from '../../sessions/training/resolve-training.ts';
import type { ConfigLayer } from '../../trainer/config/resolve-config.ts';
import { KEY_FLAGS } from './key-flags.ts';
import { flagOf } from '../options/option.ts';
import { settingLayer } from '../../trainer/config/setting-text.ts';
import { TRAIN_OPTIONS, type TrainValues } from './train-options.ts';

export interface TrainDisplay {
  /** Print only one JSON object on stdout, at the end. */
  readonly json: boolean;
  /** No colour, no live display. */
  readonly plain: boolean;
  readonly verbose: boolean;
}

/** The layers are those of the flags, `--set` last. */
export interface TrainArguments extends TrainingRequest {
  /** `dry-run` opens the environment and trains nothing, `show-config` prints the resolved configuration. */
  readonly action: 'train' | 'dry-run' | 'show-config';
  /** Model of the hub to which the adapter is pushed, and which of the run's adapters; null for none. */
  readonly push: { readonly target: string; readonly which: 'last' | 'best' } | null;
  /** US dollars for one GPU and hour, for a dry run; null shows no prices. */
  readonly gpuPrice: number | null;
  readonly display: TrainDisplay;
}

interface Given {
  readonly arguments: { readonly environment: string | undefined };
  readonly options: TrainValues;
}

/** Throws a one-line ConfigError for options that do not go together; values are checked further with the configuration. */
export function trainArguments({ arguments: { environment: target }, options }: Given): TrainArguments {
  const {
    resume,
    preset = null,
    push,
    pushBest = false,
    allowChanges = false,
    json = false,
    plain = false,
    verbose = false,
    gpuPrice = null,
  } = options;
  if (target === undefined && resume === undefined && preset === null)
    throw new ConfigError('Name an environment or a TOML file; try vf-train search-r1 --preset laptop, or vf-train --help');
  if (resume === undefined && allowChanges) throw new ConfigError('--allow-changes needs -R: it allows changes to a run that is resumed');
  if (push === undefined && pushBest) throw new ConfigError('--push-best needs --push OWNER/NAME: it chooses the adapter that is uploaded');
  if (gpuPrice !== null && options.dryRun !== true) throw new ConfigError('--gpu-price needs --dry-run, which shows the price of the run');
  return {
    action: options.dryRun === true ? 'dry-run' : options.showConfig === true ? 'show-config' : 'train',
    target: target ?? null,
    preset,
    ...(options.envDirPath === undefined ? {} : { environmentsDir: options.envDirPath }),
    layers: layersOf(options),
    resume: resume === undefined ? null : { directory: typeof resume === 'string' ? resume : null, allowChanges },
    push: push === undefined ? null : { target: push, which: pushBest ? 'best' : 'last' },
    gpuPrice,
    display: { json, plain, verbose },
  };
}

function layersOf(options: TrainValues): readonly ConfigLayer[] {
  const values: Readonly<Record<string, unknown>> = options;
  const given = Object.keys(TRAIN_OPTIONS).filter((name) => name in TABLES && values[name] !== undefined);
  const layers = given.map((name) => ({ source: flagOf(name), table: TABLES[name]!(values[name], options) }));
  assertOneServer(layers.map(({ source }) => source));
  return [...layers, ...samplingLayer(options), ...(options.set ?? []).map(settingLayer)];
}

type Table = Readonly<Record<string, unknown>>;

/** The settings of each option: those that `KEY_FLAGS` does not name set several keys. */
const TABLES: Readonly<Record<string, (value: unknown, options: TrainValues) => Table>> = {
  ...Object.fromEntries(
    Object.entries(KEY_FLAGS).map(([name, { key, ...flag }]) => [name, (value: unknown) => nestedTable(key, 'value' in flag ? flag.value : value)]),
  ),
  role: (value) => ({ roles: value }),
  apiBaseUrl: (value) => ({ policy: { base_url: oneOrAll(value), launch: null, embedded: null } }),
  // These override a server in a file.
  launch: () => ({ policy: { base_url: null, api_key_var: null, launch: {}, embedded: null } }),
  embedded: () => ({ policy: { base_url: null, api_key_var: null, launch: null, embedded: {} }, backend: { kind: 'embedded' } }),
  // The API has no other alpha.
  tinker: (model) => ({
    policy: { base_url: null, api_key_var: null, launch: null, embedded: null },
    backend: { kind: 'tinker', model },
    lora: { alpha: 32 },
  }),
  vllmPython: (python) => ({ policy: { base_url: null, api_key_var: null, launch: { python }, embedded: null } }),
  // Only the torch worker needs a Python, regardless of the preset.
  python: (python) => ({ backend: { kind: 'torch', python } }),
  sft: (files) => ({ sft: { data: oneOrAll(files) }, steps: 0 }),
  // With --sft, --steps are the supervised steps, because there are no others.
  steps: (steps, { sft }) => (sft === undefined ? { steps } : { sft: { steps } }),
};

function oneOrAll(values: unknown): unknown {
  return Array.isArray(values) && values.length === 1 ? values[0] : values;
}

const SAMPLING = ['temperature', 'max_tokens', 'top_p'];

/** The layer of `-S`, which overrides the flags of its own keys. */
function samplingLayer({ samplingArgs }: TrainValues): ConfigLayer[] {
  if (samplingArgs === undefined) return [];
  const other = Object.keys(samplingArgs).find((key) => !SAMPLING.includes(key));
  if (other !== undefined && isTemplateField(other))
    throw new ConfigError(
      `${other} in -S is for the chat template, which a training gives no fields. Set it where the server starts: vLLM's --default-chat-template-kwargs '{"enable_thinking": false}' (policy.launch.args, if vf-train starts it).`,
    );
  if (other !== undefined)
    throw new ConfigError(
      `${other} in -S cannot be trained with: a training samples with ${SAMPLING.join(', ')} alone, so that its log-probs are those of the policy`,
    );
  const { top_p: topP = 1, ...rollouts } = samplingArgs;
  if (topP !== 1) throw new ConfigError(`top_p in -S must be 1, got ${JSON.stringify(topP)}: no trainer can reproduce log-probs below that`);
  return [{ source: '--sampling-args', table: { rollouts } }];
}

const SERVER_FLAGS: readonly { readonly flags: readonly string[]; readonly what: string }[] = [
  { flags: ['--api-base-url'], what: '-b (a running server)' },
  { flags: ['--launch', '--vllm-python'], what: '--launch (a vLLM started with this run)' },
  { flags: ['--embedded'], what: '--embedded (this process)' },
  { flags: ['--tinker'], what: '--tinker (a training service)' },
];

function assertOneServer(given: readonly string[]): void {
  const named = SERVER_FLAGS.filter(({ flags }) => flags.some((flag) => given.includes(flag)));
  const [own] = named.filter(({ flags }) => !flags.includes('--api-base-url'));
  if (own !== undefined && given.includes('--api-key-var'))
    throw new ConfigError(`-k names the API key of a running server (-b); leave it out with ${own.what}`);
  if (named.length < 2) return;
  throw new ConfigError(`Use only one of ${SERVER_FLAGS.map(({ what }) => what).join(', ')}; got ${named.map(({ what }) => what).join(' and ')}`);
}
