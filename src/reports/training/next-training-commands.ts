/** Useful commands after a training run. */
import { basename } from 'node:path';
import type { TrainingConfig, TrainingConfigWire } from '../../schemas/training-config.ts';
import type { TrainingSummary } from '../../schemas/training-summary.ts';
import type { RoleTable } from '../../schemas/roles-config.ts';
import { maxLoraRank } from '../../launch/vllm-flags.ts';
import { redactUrl } from '../../transport/redact.ts';
import { bundledModels, bundledName } from '../../data/bundled-models.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import { displayPath } from '../evaluation/render-summary.ts';
import { ownCommand } from '../text/own-command.ts';
import { bundledPresets } from '../../sessions/environment/presets.ts';
import { shellCommand } from '../text/shell-text.ts';
import { gpuCommand } from '../../cli/train/gpu-command.ts';

interface NextCommand {
  readonly why: string;
  readonly command: string;
}

type Config = Pick<TrainingConfig, 'environment' | 'policy' | 'lora' | 'roles'>;

interface NextOptions {
  /** The preset that the run names; null for none. */
  readonly preset: string | null;
  /** Rows of the evaluation environment. @default unknown */
  readonly rows?: number;
}

/** `wire` is the resolved configuration. */
export function nextTrainingCommands(summary: TrainingSummary, config: Config, wire: TrainingConfigWire, options: NextOptions): NextCommand[] {
  const { resumable, directory, adapter } = summary;
  if (resumable) return [{ why: 'continue this run', command: resumeCommand(directory) }];
  if (adapter === null) return [];
  const [baseUrl] = [config.policy.baseUrl ?? []].flat();
  if (baseUrl !== undefined) return [{ why: 'evaluate what serves now', command: evaluateServed(summary, config, baseUrl) }];
  if (config.policy.embedded !== null) return afterEmbedded(summary, config, { ...options, adapter, wire });
  if (config.policy.launch !== null) return afterLaunched(summary, config, adapter);
  // No server ever had the adapter, so it has no name yet; that of the base would be answered by the base.
  if (wire.backend.kind === 'torch') return afterLaunched({ ...summary, model: basename(summary.directory) }, config, adapter);
  return [evaluatedHere(config, { ...options, adapter })];
}

export function resumeCommand(directory: string): string {
  return ownCommand('vf-train', ['-R', displayPath(directory)]);
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
    `${model}=${displayPath(adapter)}`,
  ];
  return [
    { why: 'serve the adapter', command: shellCommand(['vllm', 'serve', baseModel, ...lora]) },
    { why: 'then evaluate it', command: evaluateServed(summary, config, 'http://127.0.0.1:8000/v1') },
  ];
}

/** A few dozen rows suffice for an evaluation by hand. */
const MOST_ROWS = 50;
/** A real model on real questions without downloading a corpus: NQ over the bundled passages. */
const REAL_QUESTIONS = ['search-r1', '-m', 'Qwen/Qwen3-4B', '-a', '{"dataset":"nq-mini"}', '--launch'];

function afterEmbedded(
  { baseModel }: TrainingSummary,
  config: Config,
  { wire, ...options }: NextOptions & { readonly adapter: string; readonly wire: TrainingConfigWire },
): NextCommand[] {
  const { id } = config.environment;
  const onGpu = 'repeat it on a GPU machine with vLLM and PyTorch in its python3 (check with npx vf-doctor)';
  const commands = [evaluatedHere(config, options), { why: onGpu, command: ownCommand('vf-train', gpuCommand(wire, options.preset)) }];
  return bundledName(baseModel) === null ? commands : [...commands, ...withRealModel(id)];
}

/** Names the environment's own preset for a model that the package does not ship, preferably one for a single GPU (`-mini`); nothing if it has none. */
function withRealModel(id: string): NextCommand[] {
  if (id === 'search-r1') return [{ why: 'train a real model on real questions there', command: ownCommand('vf-train', REAL_QUESTIONS) }];
  const presets = bundledPresets().filter(({ environment, table }) => environment === id && isDownloaded(fieldsOf(table['model'])['path']));
  const preset = presets.find(({ name }) => name.endsWith('-mini')) ?? presets[0];
  if (preset === undefined) return [];
  return [{ why: 'train a real model there', command: ownCommand('vf-train', [id, '--preset', preset.name, '--launch']) }];
}

function isDownloaded(path: unknown): boolean {
  return typeof path === 'string' && !bundledModels().includes(path);
}

function evaluatedHere(config: Config, { adapter, rows = Infinity }: NextOptions & { readonly adapter: string }): NextCommand {
  const evaluate = [...environmentWords(config), '-n', String(Math.min(MOST_ROWS, rows)), '-p', 'embedded', '-m', displayPath(adapter)];
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
