/** Announces in a few lines what a run will do, and with which parts. */
import { basename, join } from 'node:path';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { redactUrl } from '../../transport/redact.ts';
import { displayPath } from '../eval/render-summary.ts';
import { plural } from '../number-text.ts';
import { shellCommand } from '../shell-text.ts';
import { escapeControls } from '../terminal-text.ts';

/** `directory` is the run's folder; null if it has none. */
export function announcedLines(config: TrainingConfig, directory: string | null): string[] {
  const { environment, model, lora, rollouts, steps, optimizer } = config;
  const { dataset } = environment.args;
  const questions = typeof dataset === 'string' ? `${environment.id} on ${dataset}` : environment.id;
  const batch = `${plural(steps, 'step')} of ${rollouts.examplesPerStep} × ${plural(rollouts.rolloutsPerExample, 'rollout')}`;
  const facts: [label: string, text: string][] = [
    ['trains', `${basename(model.path)} to play ${questions}: GRPO on a LoRA of rank ${lora.rank}, ${batch}, lr ${optimizer.learningRate}`],
    ['with', partsText(config)],
    ...(directory === null ? [] : [['results in', displayPath(directory)] as [string, string]]),
  ];
  facts.push(...curveCommands(config, directory).map((command, i): [string, string] => [i === 0 ? 'curves' : '', command]));
  return facts.map(([label, text]) => `${label.padEnd(LABEL)}${escapeControls(text)}`);
}

/** The commands that show the run's curves in a viewer. */
function curveCommands({ logging: { tensorboard, wandb } }: TrainingConfig, directory: string | null): string[] {
  if (directory === null) return [];
  return [
    ...(tensorboard ? [shellCommand(['tensorboard', '--logdir', displayPath(join(directory, 'tensorboard'))])] : []),
    ...(wandb === null ? [] : [`${shellCommand(['wandb', 'sync', displayPath(join(directory, 'wandb'))])} (wandb beta sync --live: during the run)`]),
  ];
}

const LABEL = 11;

function partsText({ policy, backend }: TrainingConfig): string {
  if (policy.embedded !== null && backend.kind === 'embedded')
    return 'the embedded engine, which samples and trains in this process: no server, no Python';
  return `${policyText(policy)}; ${backend.kind === 'embedded' ? 'the embedded engine trains' : `PyTorch of ${backend.python} trains`}`;
}

/** Says what samples, in words and without credentials. */
export function policyText({ baseUrl, launch, embedded }: TrainingConfig['policy']): string {
  if (embedded !== null) return 'the embedded engine in this process samples';
  if (launch !== null) return `a vLLM server that this run starts with ${launch.python} samples`;
  return `${[baseUrl ?? []].flat().map(redactUrl).join(', ')} samples`;
}
