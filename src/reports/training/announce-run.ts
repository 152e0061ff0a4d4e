/** Announces in a few lines the work of a run and its parts. */
import { settingNumber } from '../../core/setting-number.ts';
import { basename, isAbsolute, join } from 'node:path';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { isModulePath } from '../../core/module-path.ts';
import { givenRunName } from '../../schemas/run-name.ts';
import { ENVIRONMENT_CREDIT } from '../../trainer/config/own-credit.ts';
import { demonstrationSources, supervisedSteps } from '../../trainer/config/training-schedule.ts';
import { type ChangedSetting, valuesText } from '../../trainer/records/setting-history.ts';
import { redactUrl } from '../../transport/redact.ts';
import { displayPath, nearbyPath, shellCommand } from '../text/own-command.ts';
import { plural } from '../text/number-text.ts';
import { factLines } from '../text/report.ts';

/** `directory` is the run's folder; null if it has none. `changed` has the settings that changed between earlier steps. */
export function announcedLines(config: TrainingConfig, directory: string | null, changed: readonly ChangedSetting[] = []): string[] {
  const { name, environment, model } = config;
  const given = givenRunName(name, environment.id, model.path);
  const facts: [label: string, text: string][] = [
    ...(given === null ? [] : [['name', given] as [string, string]]),
    ['trains', trainedText(config, { changed })],
    ['with', partsText(config)],
    ...(directory === null ? [] : [['results in', displayPath(directory)] as [string, string]]),
  ];
  facts.push(...curveCommands(config, directory).map((command, i): [string, string] => [i === 0 ? 'curves' : '', command]));
  return factLines(facts);
}

/** The files of demonstrations without their folders, and data sets by their names; empty without any. */
export function demonstrationNames({ data, problems }: TrainingConfig['sft']): string[] {
  return [
    ...demonstrationSources({ data, problems: null }).map((path) => basename(path)),
    ...(problems === null ? [] : [isAbsolute(problems) ? basename(problems) : problems]),
  ];
}

/** The model, its source of learning, the steps and their learning rates. `name` is the model's; `changed` has the settings that changed between the steps. */
export function trainedText(config: TrainingConfig, { name = basename(config.model.path), changed = [] }: TrainedTextOptions = {}): string {
  const { environment, lora, steps, sft } = config;
  const { dataset } = environment.args;
  const questions = typeof dataset === 'string' ? `${environment.id} on ${dataset}` : environment.id;
  const files = demonstrationNames(sft);
  if (files.length === 0)
    return `${name} to play ${questions}: ${methodText(config)} on a LoRA of rank ${lora.rank}, ${rolloutSteps(config, changed)}`;
  const rate = rateText(sft.learningRate ?? config.optimizer.learningRate, sft.learningRate === null ? PEAK : 'sft.learning_rate', changed);
  const supervised = `${plural(supervisedSteps(config), 'supervised step')} of ${sft.batchSize === 1 ? '' : 'up to '}${plural(sft.batchSize, 'row')}, ${rate}`;
  if (steps === 0) return `${name} on the demonstrations of ${files.join(', ')}: a LoRA of rank ${lora.rank}, ${supervised}`;
  return `${name} to play ${questions}: a LoRA of rank ${lora.rank}, ${supervised} (${files.join(', ')}), then ${methodText(config)}, ${rolloutSteps(config, changed)}`;
}

interface TrainedTextOptions {
  readonly name?: string;
  readonly changed?: readonly ChangedSetting[];
}

const PEAK = 'optimizer.learning_rate';

/** `lr 0.001 in steps 1-12, then 0.002` */
function rateText(rate: number, key: string, changed: readonly ChangedSetting[]): string {
  const several = changed.find((each) => each.key === key);
  return `lr ${several === undefined ? settingNumber(rate) : valuesText(several)}`;
}

function rolloutSteps({ steps, rollouts, rolloutsFile, optimizer }: TrainingConfig, changed: readonly ChangedSetting[]): string {
  // Only the file shows the number of rollouts in each group.
  const batch =
    rolloutsFile === null
      ? `${rollouts.examplesPerStep} × ${plural(rollouts.rolloutsPerExample, 'rollout')}`
      : `${plural(rollouts.examplesPerStep, 'group')} of rollouts of ${rolloutsFile === '-' ? 'stdin' : basename(rolloutsFile)}`;
  return `${plural(steps, 'step')} of ${batch}, ${rateText(optimizer.learningRate, PEAK, changed)}`;
}

/** The method that the settings of loss and advantage amount to, by the name of the paper if it has one. */
function methodText({ algorithm: { loss, advantage } }: TrainingConfig): string {
  if (isModulePath(loss.use)) return `the loss ${basename(loss.use)}`;
  if (advantage.use !== 'outcome') return `the credit ${advantage.use === ENVIRONMENT_CREDIT ? 'of the environment' : basename(advantage.use)}`;
  if (loss.use === 'rpg') return 'RPG';
  if (loss.use === 'nll' || advantage.scope === 'none') return 'REINFORCE';
  if (advantage.scope === 'batch') return 'REINFORCE++';
  if (advantage.scope !== 'group') return `a policy gradient with advantages by ${advantage.scope === 'role' ? 'role' : 'role and task'}`;
  if (advantage.baseline === 'leave_one_out') return 'RLOO';
  if (loss.objective === 'cispo') return 'CISPO';
  if (loss.ratio === 'sequence') return 'GSPO';
  return advantage.std === 'none' ? 'Dr. GRPO' : 'GRPO';
}

/** The commands that show the run's curves in a viewer. */
function curveCommands({ logging: { tensorboard, wandb } }: TrainingConfig, directory: string | null): string[] {
  if (directory === null) return [];
  return [
    ...(tensorboard ? [shellCommand(['tensorboard', '--logdir', nearbyPath(join(directory, 'tensorboard'))])] : []),
    ...(wandb === null ? [] : [`${shellCommand(['wandb', 'sync', nearbyPath(join(directory, 'wandb'))])} (wandb beta sync --live: during the run)`]),
  ];
}

function partsText(config: TrainingConfig): string {
  const { policy, backend } = config;
  if (backend.kind === 'tinker') return policyText(config);
  if (policy.embedded !== null && backend.kind === 'embedded')
    return 'the embedded engine, which samples and trains in this process: no server, no Python';
  const trains = backend.kind === 'embedded' ? 'the embedded engine trains' : `PyTorch of ${backend.python} trains`;
  const isServed = policy.embedded !== null || policy.launch !== null || policy.baseUrl !== null;
  return isServed ? `${policyText(config)}; ${trains}` : `${trains}; without a policy server, nothing is played`;
}

/** Names the sampler, in words and without credentials. */
export function policyText({ policy: { baseUrl, launch, embedded }, backend, model }: TrainingConfig): string {
  if (backend.kind === 'tinker')
    return `${backend.model ?? model.path} at ${backend.baseUrl === null ? 'the hosted Tinker' : redactUrl(backend.baseUrl)}, which samples and trains`;
  if (embedded !== null) return 'the embedded engine in this process samples';
  if (launch !== null) return `a vLLM server that this run starts with ${launch.python} samples`;
  return `${[baseUrl ?? []].flat().map(redactUrl).join(', ')} samples`;
}
