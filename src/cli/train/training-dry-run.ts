/** The output of `vf-train --dry-run`: the resolved settings, the cost of a step, and the first prompt. Opens the environment and, for the embedded engine, the model's configuration. */
import { Random } from '../../core/random.ts';
import { maxLoraRank } from '../../launch/vllm-flags.ts';
import { loadEnvironment } from '../../registry/load-environment.ts';
import { policyText } from './announce-run.ts';
import { countText, plural } from '../number-text.ts';
import { checkModel } from '../open-engine.ts';
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
    const { contextTokens } = environment.limits;
    const responseTokens = rollouts.maxTokens ?? environment.limits.responseTokens;
    const members = rollouts.examplesPerStep * rollouts.rolloutsPerExample;
    const row = environment.train.at(0);
    const facts: [string, string][] = [
      ['environment', `${environment.id}, ${environment.turnFormat} format`],
      ['data', `${environment.train.name}: ${plural(environment.train.length, 'row')} to train on`],
      ['model', model.path],
      ['policy', policyText(policy)],
      [
        'a step',
        `${plural(rollouts.examplesPerStep, 'row')} × ${plural(rollouts.rolloutsPerExample, 'rollout')} = ${countText(members)}, of ${plural(steps, 'step')}`,
      ],
      [
        'lengths',
        `${countText(responseTokens)} new tokens per generation, contexts up to ${countText(contextTokens)}: at most ${countText(members * (contextTokens + responseTokens))} tokens per step`,
      ],
      ['adapter', `LoRA rank ${lora.rank}, alpha ${lora.alpha} on ${lora.targets.join(', ')}`],
      [
        'loss',
        `${algorithm.loss.objective}, ${algorithm.loss.aggregation}, KL ${algorithm.kl.coefficient}, learning rate ${optimizer.learningRate}, ${plural(algorithm.minibatches * algorithm.epochs, 'optimiser step')} per step`,
      ],
      ...(policy.embedded === null ? [serverNeeds(config)] : []),
    ];
    await using episode = await environment.start(row, { random: Random.fromSeed(seed), signal });
    const prompt = episode.prompt.map(({ role, content }) => `${role}:\n${escapeControls(content, { lines: true })}`);
    return [
      'Dry run: nothing is sampled, trained or written.',
      '',
      ...facts.map(([label, text]) => `${label.padEnd(14)}${escapeControls(text)}`),
      '',
      `First prompt (row ${escapeControls(String(row.exampleId))})`,
      prompt.join('\n\n'),
      '',
    ].join('\n');
  } finally {
    await environment.close();
  }
}

function serverNeeds({ lora, rollouts }: TrainingSetup['config']): [string, string] {
  return [
    'server needs',
    `--enable-lora --max-lora-rank ${maxLoraRank(lora.rank)} --max-loras ${rollouts.maxStaleness + 2} and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1`,
  ];
}
