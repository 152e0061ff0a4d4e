/** The output of `vf-train --dry-run`: the resolved settings, the cost of a step, and the first prompt. Opens the environment and, for the embedded engine, the model's configuration. */
import { contentText } from '../../core/message.ts';
import { Random } from '../../core/random.ts';
import { maxLoraRank } from '../../launch/vllm-flags.ts';
import { loadEnvironment } from '../../registry/load-environment.ts';
import { policyText } from './announce-run.ts';
import { assertTrainable } from './assert-trainable.ts';
import { longestRollout } from './open-policy-servers.ts';
import { planGpus } from './plan-gpus.ts';
import { countText, plural } from '../number-text.ts';
import { checkModel } from '../open-engine.ts';
import { resolvedRoleText } from '../roles/open-roles.ts';
import { resolveRoles } from '../roles/resolve-roles.ts';
import { escapeControls } from '../terminal-text.ts';
import type { TrainingSetup } from './read-training-config.ts';

export async function trainingDryRun(
  { config }: TrainingSetup,
  variables: Readonly<Record<string, string | undefined>>,
  signal: AbortSignal,
): Promise<string> {
  const { environment: wanted, rollouts, algorithm, lora, optimizer, policy, backend, model, steps, seed } = config;
  // Refuses what the embedded engine would refuse. Not for Python backends, where a name may be a model to download.
  if (policy.embedded !== null || backend.kind === 'embedded') await checkModel(model.path);
  const environment = await loadEnvironment(wanted.id, wanted.args, { env: variables, signal, purpose: 'training' });
  try {
    await assertTrainable(environment, config);
    const { contextTokens } = environment.limits;
    const responseTokens = rollouts.maxTokens ?? environment.limits.responseTokens;
    const members = rollouts.examplesPerStep * rollouts.rolloutsPerExample;
    const row = environment.train.at(0);
    const roles = await resolveRoles(environment.roles ?? {}, config.roles, { variables });
    const facts: [string, string][] = [
      ['environment', `${environment.id}, ${environment.turnFormat} format`],
      ['data', `${environment.train.name}: ${plural(environment.train.length, 'row')} to train on`],
      ['model', model.path],
      ['policy', policyText(policy)],
      [
        'a step',
        `${plural(rollouts.examplesPerStep, 'row')} × ${plural(rollouts.rolloutsPerExample, 'rollout')} = ${countText(members)}, of ${plural(steps, 'step')}`,
      ],
      ['lengths', lengthsText({ responseTokens, contextTokens, members })],
      ['adapter', `LoRA rank ${lora.rank}, alpha ${lora.alpha} on ${lora.targets.join(', ')}`],
      [
        'loss',
        `${algorithm.loss.objective}, ${algorithm.loss.aggregation}, KL ${algorithm.kl.coefficient}, learning rate ${optimizer.learningRate}, ${plural(algorithm.minibatches * algorithm.epochs, 'optimiser step')} per step`,
      ],
      ...roles.map((role): [string, string] => ['role', `${role.role}: ${resolvedRoleText(role)}`]),
      ...(policy.embedded === null ? [serverNeeds(config)] : []),
    ];
    const planned = await planGpus(config, { contextTokens: longestRollout(environment, model.path), variables, signal });
    await using episode = await environment.start(row, { random: Random.fromSeed(seed), signal });
    const prompt = episode.prompt.map(({ role, content }) => `${role}:\n${escapeControls(contentText(content), { lines: true })}`);
    return [
      'Dry run: nothing is sampled, trained or written.',
      '',
      ...facts.map(([label, text]) => `${label.padEnd(14)}${escapeControls(text)}`),
      ...(planned.lines.length === 0 ? [] : ['', ...planned.lines.map((line) => escapeControls(line))]),
      '',
      `First prompt (row ${escapeControls(String(row.exampleId))})`,
      prompt.join('\n\n'),
      '',
    ].join('\n');
  } finally {
    await environment.close();
  }
}

/** Either length may be infinite: then only the model's window limits it. */
function lengthsText({ responseTokens, contextTokens, members }: Record<'responseTokens' | 'contextTokens' | 'members', number>): string {
  const generation = Number.isFinite(responseTokens) ? `${countText(responseTokens)} new tokens per generation` : 'a generation may fill the window';
  if (!Number.isFinite(contextTokens)) return `${generation}, contexts up to the model's window`;
  const contexts = `${generation}, contexts up to ${countText(contextTokens)}`;
  return Number.isFinite(responseTokens) ? `${contexts}: at most ${countText(members * (contextTokens + responseTokens))} tokens per step` : contexts;
}

function serverNeeds({ lora, rollouts }: TrainingSetup['config']): [string, string] {
  return [
    'server needs',
    `--enable-lora --max-lora-rank ${maxLoraRank(lora.rank)} --max-loras ${rollouts.maxStaleness + 2} and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1`,
  ];
}
