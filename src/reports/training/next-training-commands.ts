/** Useful commands after a training run. */
import { basename, join, resolve } from 'node:path';
import type { NewRun } from '../../core/new-run.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { TrainingSummary } from '../../schemas/training-summary.ts';
import type { RoleTable } from '../../schemas/roles-config.ts';
import { maxLoraRank } from '../../launch/vllm-flags.ts';
import { redactUrl } from '../../transport/redact.ts';
import { bundledModels, bundledName } from '../../data/bundled-models.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import { displayPath, nearbyPath, type NextCommand, ownCommand, shellCommand } from '../text/own-command.ts';
import { serverAdapterDir } from '../../trainer/config/server-adapter-dir.ts';
import type { Preset } from '../../trainer/config/preset.ts';
import { serverRoot } from '../../core/server-url.ts';

type Config = Pick<TrainingConfig, 'environment' | 'policy' | 'lora' | 'roles' | 'publish'>;

interface NextOptions {
  readonly backend: TrainingConfig['backend']['kind'];
  /** Rows of the evaluation environment. @default unknown */
  readonly rows?: number;
  /** The presets that the environment itself brings. */
  readonly presets: readonly Preset[];
  /** The flags with which `-R` helps; null if it would end the same way. @default none */
  readonly resumeFlags?: readonly string[] | null;
  /** What must be corrected before `-R` helps. @default nothing */
  readonly correct?: string | null;
  /** A new run that gets further where `-R` does not. @default none is known */
  readonly newRun?: NewRun | null;
  /** Replicas that did not serve when the run ended, as URLs without `/v1`. @default none */
  readonly resting?: readonly string[];
}

export function nextTrainingCommands(summary: TrainingSummary, config: Config, options: NextOptions): NextCommand[] {
  return [...trainAgain(summary, options), ...bestFirst(summary, config, options), ...afterRun(summary, config, options)];
}

/** A run goes on from its last weights, so that only a new one undoes an update that destroyed them. */
function trainAgain({ collapse, directory, baseModel }: TrainingSummary, { newRun = null }: NextOptions): NextCommand[] {
  const again = collapse === undefined ? newRun : { why: 'with a lower learning rate: this run has collapsed', flags: collapse.flags };
  if (again === null) return [];
  return [{ why: `train again ${again.why}`, command: ownCommand('vf-train', [...settingsWords(directory, baseModel), ...again.flags]) }];
}

/** The settings of a run, for a new one. On another machine, a bundled model is in another place. */
function settingsWords(directory: string, baseModel: string): string[] {
  const bundled = bundledName(baseModel);
  return [nearbyPath(join(directory, 'config.toml')), ...(bundled === null ? [] : ['-m', bundled])];
}

/** The best adapter, if evaluations say that the run ended worse. */
function bestFirst({ best, heldOut, resumable, ...summary }: TrainingSummary, config: Config, options: NextOptions): NextCommand[] {
  const { bestBy } = summary;
  if (resumable || best === undefined || best.metric === 'validation_nll' || heldOut === null || options.backend === 'tinker') return [];
  const gain = best.value - (bestBy ?? heldOut).end.value;
  if (bestBy?.lowerIsBetter === true ? gain >= 0 : gain <= 0) return [];
  const ended = `of step ${best.step}: the run ended worse${bestBy === undefined ? '' : ` by ${bestBy.metric}`}`;
  const why = `evaluate the best adapter, ${ended}`;
  if (config.policy.embedded !== null) return [{ ...evaluatedHere(config, { ...options, adapter: best.adapter }), why }];
  const served = { ...summary, best, heldOut, resumable, adapter: best.adapter, model: `${basename(summary.directory)}-best` };
  const baseUrl = servingUrl(config, options);
  const [serve, evaluate] = baseUrl === undefined ? afterLaunched(served, config, best.adapter) : afterUnloading(served, config, baseUrl);
  return [
    { ...serve!, why: `serve the best adapter, ${ended}` },
    { ...evaluate!, why: 'then evaluate it' },
  ];
}

function afterRun(summary: TrainingSummary, config: Config, options: NextOptions): NextCommand[] {
  const { resumable, directory, adapter, collapse, reason } = summary;
  if (resumable && collapse !== undefined && reason === 'stopped') return [];
  const { resumeFlags = [], correct = null } = options;
  if (resumable && resumeFlags !== null)
    return [
      {
        why: correct === null ? 'continue this run' : `correct ${displayPath(correct)}, then continue this run`,
        command: resumeCommand(directory, resumeFlags),
      },
    ];
  if (adapter === null) return [];
  if (options.backend === 'tinker')
    return [
      {
        why: 'bring the adapter here, as a PEFT folder',
        command: ownCommand('vf-export', [nearbyPath(directory), '--adapter', '-o', `${basename(directory)}-adapter`]),
      },
    ];
  const baseUrl = servingUrl(config, options);
  if (baseUrl !== undefined && config.policy.keepAdapter)
    return [{ why: 'evaluate what serves now', command: evaluateServed(summary, config, baseUrl) }];
  if (baseUrl !== undefined) return afterUnloading({ ...summary, adapter }, config, baseUrl);
  if (config.policy.embedded !== null) return afterEmbedded(summary, config, { ...options, adapter });
  if (config.policy.launch !== null) return afterLaunched(summary, config, adapter);
  // No server ever had the adapter, so it has no name yet; that of the base would be answered by the base.
  if (options.backend === 'torch') return afterLaunched({ ...summary, model: basename(summary.directory) }, config, adapter);
  return [evaluatedHere(config, { ...options, adapter })];
}

/** The first replica that served when the run ended; undefined without a server of the user's. */
function servingUrl({ policy }: Config, { resting = [] }: NextOptions): string | undefined {
  const urls = [policy.baseUrl ?? []].flat();
  return urls.find((url) => !resting.some((replica) => isSameServer(replica, url))) ?? urls[0];
}

/** A replica's name lacks the credentials of its URL. */
function isSameServer(replica: string, baseUrl: string): boolean {
  const [a, b] = [new URL(replica), new URL(serverRoot(baseUrl))];
  return a.host === b.host && serverRoot(a.pathname) === serverRoot(b.pathname);
}

/** Says what replicas that did not serve when the run ended may still have; null if all served. */
export function restingNotice(resting: readonly string[], model: string): string | null {
  if (resting.length === 0) return null;
  const they = resting.length === 1 ? 'it' : 'they';
  return `${resting.map(redactUrl).join(', ')} did not serve ${model} when the run ended; ${they} may still have older adapters of this run: restart ${they === 'it' ? 'it' : 'them'}, or unload these with POST /v1/unload_lora_adapter`;
}

/** `flags`: those with which it helps. */
export function resumeCommand(directory: string, flags: readonly string[] = []): string {
  return ownCommand('vf-train', ['-R', nearbyPath(directory), ...flags]);
}

/** The server runs on without the run's adapters. It takes the folder under the name that its last version had; of a run, it may see `adapters` alone, under another path. */
function afterUnloading(summary: TrainingSummary & { readonly adapter: string }, config: Config, baseUrl: string): NextCommand[] {
  const { apiKeyVar } = config.policy;
  const seen = serverAdapterDir(config.publish.serverAdapterDir, summary.directory);
  const copy =
    seen === null ? [] : [shellCommand(['cp', '-r', nearbyPath(summary.adapter), nearbyPath(join(summary.directory, 'adapters', summary.model))])];
  const path = seen === null ? resolve(summary.adapter) : `${seen}/${summary.model}`;
  const key = apiKeyVar === null ? [] : ['-H', `"authorization: Bearer $${apiKeyVar}"`];
  const body = JSON.stringify({ lora_name: summary.model, lora_path: path });
  const url = redactUrl(`${serverRoot(baseUrl)}/v1/load_lora_adapter`);
  const words = ['curl', url, '-H', 'content-type: application/json'];
  return [
    { why: 'serve the adapter again', command: [...copy, [shellCommand(words), ...key, shellCommand(['-d', body])].join(' ')].join(' && ') },
    { why: 'then evaluate it', command: evaluateServed(summary, config, baseUrl) },
  ];
}

/** The run's server has stopped, so the adapter must be served again first. */
function afterLaunched(summary: TrainingSummary, config: Config, adapter: string): NextCommand[] {
  const { baseModel, model } = summary;
  const lora = [
    '--generation-config',
    'vllm',
    '--enable-lora',
    '--max-lora-rank',
    String(maxLoraRank(config.lora.rank)),
    '--lora-modules',
    `${model}=${nearbyPath(adapter)}`,
  ];
  return [
    { why: 'serve the adapter', command: shellCommand(['vllm', 'serve', baseModel, ...lora]) },
    { why: 'then evaluate it', command: evaluateServed(summary, config, 'http://127.0.0.1:8000/v1') },
  ];
}

/** A few dozen rows suffice for an evaluation by hand. */
const MOST_ROWS = 50;
function afterEmbedded(
  { baseModel, directory, collapse, changedSettings }: TrainingSummary,
  config: Config,
  options: NextOptions & { readonly adapter: string },
): NextCommand[] {
  const bundled = bundledName(baseModel);
  const again = changedSettings === undefined ? 'repeat it' : 'train with the settings of its last steps';
  const onGpu = `${again} on a GPU machine with vLLM and PyTorch in its python3 (check with vf-doctor)`;
  const words = [...settingsWords(directory, baseModel), '--launch', '--python', 'python3', ...(collapse?.flags ?? [])];
  const commands = [evaluatedHere(config, options), { why: onGpu, command: ownCommand('vf-train', words) }];
  return bundled === null ? commands : [...commands, ...withRealModel(config.environment.id, options.presets)];
}

/** Names the environment's own preset for a model that the package does not ship, preferably one for a single GPU (`-mini`); nothing if it has none. */
function withRealModel(id: string, presets: readonly Preset[]): NextCommand[] {
  const real = presets.filter(({ table }) => isDownloaded(fieldsOf(table['model'])['path']));
  const preset = real.find(({ name }) => name.endsWith('-mini')) ?? real[0];
  if (preset === undefined) return [];
  return [{ why: 'train a real model there', command: ownCommand('vf-train', [id, '--preset', preset.name, '--launch']) }];
}

function isDownloaded(path: unknown): boolean {
  return typeof path === 'string' && !bundledModels().includes(path);
}

function evaluatedHere(config: Config, { adapter, rows = Infinity }: NextOptions & { readonly adapter: string }): NextCommand {
  const evaluate = [...environmentWords(config), '-n', String(Math.min(MOST_ROWS, rows)), '-p', 'embedded', '-m', nearbyPath(adapter)];
  return { why: 'evaluate the adapter here', command: ownCommand('vf-eval', evaluate) };
}

function evaluateServed({ model }: TrainingSummary, config: Config, baseUrl: string): string {
  const { apiKeyVar } = config.policy;
  const key = apiKeyVar === null ? [] : ['-k', apiKeyVar];
  return ownCommand('vf-eval', [...environmentWords(config), '-p', 'vllm', '-b', baseUrl, ...key, '-m', model]);
}

/** The evaluation environment, with its arguments and the models of its roles: another judge would give other scores. */
function environmentWords({ environment: { id, args, evalArgs }, roles }: Config): string[] {
  const all = { ...args, ...evalArgs };
  return [id, ...(Object.keys(all).length === 0 ? [] : ['-a', JSON.stringify(all)]), ...Object.entries(roles).flatMap(roleWords)];
}

/** Empty if the table keeps the environment's own model. Limits, replicas and the variable of an API key have no flag. */
function roleWords([role, { use, base_url: baseUrl, model }]: [string, RoleTable]): string[] {
  const [url] = [baseUrl ?? []].flat();
  const who = url === undefined ? use : `${model === undefined ? '' : `${model}@`}${redactUrl(url)}`;
  return who === undefined ? [] : ['--role', `${role}=${who}`];
}
