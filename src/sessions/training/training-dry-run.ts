/** The output of `vf-train --dry-run`: the resolved settings, the cost of a step, and the first prompt. Opens the environment and, for the embedded engine, the model's configuration. */
import { settingNumber } from '../../core/setting-number.ts';
import { basename } from 'node:path';
import { Disposers } from '../../core/disposers.ts';
import type { Environment } from '../../core/environment.ts';
import { Random } from '../../core/random.ts';
import { firstRow, trainingRows } from '../../core/training-rows.ts';
import { IMAGE_FLAGS, maxLoraRank } from '../../launch/vllm-flags.ts';
import { loadEnvironment } from '../../registry/load-environment.ts';
import { environmentFunction } from '../../registry/load-export.ts';
import { showsImages } from '../../rollouts/assert-playable.ts';
import { modelFacts } from '../../files/model-facts.ts';
import { modelFolder } from '../policy/model-folder.ts';
import { isModulePath } from '../../core/module-path.ts';
import { clipNotice } from '../../trainer/config/clip-notice.ts';
import { supervisedSteps } from '../../trainer/config/training-schedule.ts';
import { evaluatedRows } from '../../reports/training/evaluation-label.ts';
import { demonstrationNames, policyText } from '../../reports/training/announce-run.ts';
import { checkLocalBase, usesEngine } from '../policy/local-base.ts';
import { type CheckedTraining, checkTraining } from './check-training.ts';
import { isUnserved } from './open-supervised-training.ts';
import { evaluationNotices } from './evaluation-notices.ts';
import { checkSeedRows } from './seed-rows.ts';
import { countText, plural } from '../../reports/text/number-text.ts';
import { resolvedRoleText } from '../roles/open-roles.ts';
import { factLines, promptText } from '../../reports/text/report.ts';
import { redactUrl } from '../../transport/redact.ts';
import { escapeControls } from '../../reports/text/terminal-text.ts';
import type { TrainingSetup } from './resolve-training.ts';
import { serviceEstimate } from './service-estimate.ts';

export interface TrainingDryRunOptions {
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Gets the notices that a run would print first. */
  readonly note: (line: string) => void;
  /** US dollars for one GPU and hour. @default null: no price is shown */
  readonly gpuPrice?: number | null;
  /** Called with the open environments; its lines end the output. @default none */
  readonly check?: (opened: {
    readonly environment: Environment;
    readonly evaluation: Environment;
    readonly checked: CheckedTraining;
  }) => Promise<readonly string[]>;
  readonly signal: AbortSignal;
}

export interface TrainingDryRun {
  readonly text: string;
  /** Most tokens of a step's rollouts; null if nothing limits them. 0 without steps on rollouts. */
  readonly mostTokens: number | null;
  /** Hours of all GPUs together that a step takes by estimate; null if unknown. */
  readonly gpuHours: number | null;
}

export async function trainingDryRun(
  { config, notices }: Pick<TrainingSetup, 'config' | 'notices'>,
  { variables, note, gpuPrice = null, check = async () => [], signal }: TrainingDryRunOptions,
): Promise<TrainingDryRun> {
  const { environment: wanted, rollouts, lora, policy, model, steps, seed } = config;
  // Refuses bases that the embedded engine would refuse. Not for Python backends, for which a name may be a model to download.
  const isDownloaded = usesEngine(config) && (await checkLocalBase(config, variables));
  await checkSeedRows(config, { variables, signal });
  await using opened = new Disposers();
  const load = async (args: typeof wanted.args, purpose: 'training' | 'evaluation') => {
    const environment = await loadEnvironment(wanted.id, args, { env: variables, signal, purpose });
    opened.defer(() => environment.close());
    return environment;
  };
  const environment = await load(wanted.args, 'training');
  const evaluation = Object.keys(wanted.evalArgs).length === 0 ? environment : await load({ ...wanted.args, ...wanted.evalArgs }, 'evaluation');
  const checked = await checkTraining(config, {
    environment,
    evaluation,
    hasModule: true,
    isBaseLater: isDownloaded,
    variables,
    gpuPrice,
    warn: note,
    isDry: true,
    signal,
  });
  const { contextTokens } = environment.limits;
  const responseTokens = rollouts.maxTokens ?? environment.limits.responseTokens;
  const source = config.source ?? ((await environmentFunction(wanted.id, 'createSource')) === null ? null : environment.id);
  const members = steps === 0 || source !== null ? 0 : rollouts.examplesPerStep * rollouts.rolloutsPerExample;
  const window = modelFacts(modelFolder(model.path, variables)).contextLength ?? Infinity;
  const lengths = { responseTokens, contextTokens, members, window };
  const row = firstRow(environment);
  const train = trainingRows(environment);
  const facts: Fact[] = [
    ['environment', `${environment.id}, ${environment.turnFormat} format`],
    ...(train === null ? [] : [['data', `${train.name}: ${plural(train.length, 'row')} to train on`] satisfies Fact]),
    ['model', isDownloaded ? `${model.path}, which the run downloads from the hub` : model.path],
    ['policy', isUnserved(config) ? 'none: without a policy server, nothing is played' : policyText(config)],
    ...supervisedFacts(config),
    ...(steps === 0 ? [] : [rolloutStep(config, source)]),
    ['lengths', lengthsText(lengths)],
    ['adapter', `LoRA rank ${lora.rank}, alpha ${lora.alpha} on ${lora.targets.join(', ')}`],
    ...(steps === 0 ? [] : [rolloutLoss(config)]),
    ...teacherFacts(config),
    ...(checked.servicePrice === null
      ? []
      : [['cost', serviceEstimate({ config, price: checked.servicePrice, lengths, evaluationRows: evaluation.eval.length })] satisfies Fact]),
    ...checked.roles.map((role): Fact => ['role', `${role.role}: ${resolvedRoleText(role)}`]),
    ...(config.backend.kind !== 'tinker' && policy.embedded === null && !isUnserved(config) ? [serverNeeds(config, showsImages(environment))] : []),
  ];
  const clip = clipNotice(config, source !== null);
  const said = evaluationNotices(environment, isUnserved(config) ? null : evaluatedRows(environment, evaluation, config.evaluation.examples), config);
  for (const notice of [...notices, ...said, ...(clip === null ? [] : [clip])]) note(escapeControls(notice));
  await using episode = await environment.start(row, { random: Random.fromSeed(seed), signal });
  const text = [
    'Dry run: nothing is sampled, trained or written.',
    '',
    ...factLines(facts, 14),
    ...(checked.planned.lines.length === 0 ? [] : ['', ...checked.planned.lines.map((line) => escapeControls(line))]),
    ...(checked.planned.lines.length > 0 || gpuPrice === null
      ? []
      : ['', 'The price is not known: the worker trains on no GPU of this machine. For other GPUs: vf-doctor --memory --gpus 80 --gpu-price USD']),
    '',
    promptText('First prompt', row, episode.prompt),
    '',
    ...(await check({ environment, evaluation, checked })),
    '',
  ].join('\n');
  return { text, mostTokens: mostTokens(lengths), gpuHours: checked.planned.hoursPerStep ?? null };
}

type Config = TrainingSetup['config'];
type Fact = [label: string, text: string];

function supervisedFacts(config: Config): Fact[] {
  const { sft, optimizer } = config;
  const files = demonstrationNames(sft);
  if (files.length === 0) return [];
  const steps = plural(supervisedSteps(config), 'supervised step');
  return [
    [
      'supervised',
      `${steps} of ${sft.batchSize === 1 ? '' : 'up to '}${plural(sft.batchSize, 'row')} of ${files.join(', ')}, learning rate ${settingNumber(sft.learningRate ?? optimizer.learningRate)}`,
    ],
  ];
}

/** `source`: the origin of a step's rollouts, if it is not the rows of the data. */
function rolloutStep({ rollouts, rolloutsFile, steps }: Config, source: string | null): Fact {
  const { examplesPerStep, rolloutsPerExample } = rollouts;
  if (rolloutsFile !== null) {
    const from = rolloutsFile === '-' ? 'stdin' : basename(rolloutsFile);
    return ['a step', `${plural(examplesPerStep, 'group')} of ${plural(rolloutsPerExample, 'rollout')} of ${from}, of ${plural(steps, 'step')}`];
  }
  if (source !== null) {
    const settings = `examples_per_step ${examplesPerStep}, rollouts_per_example ${rolloutsPerExample}`;
    return ['a step', `as the source of ${basename(source)} plays it, with ${settings}, of ${plural(steps, 'step')}`];
  }
  const members = countText(examplesPerStep * rolloutsPerExample);
  return ['a step', `${plural(examplesPerStep, 'row')} × ${plural(rolloutsPerExample, 'rollout')} = ${members}, of ${plural(steps, 'step')}`];
}

function rolloutLoss({ algorithm: { loss, kl, minibatches, epochs }, optimizer }: Config): Fact {
  const what = isModulePath(loss.use)
    ? basename(loss.use)
    : loss.use === 'ratio'
      ? `${loss.objective}, ${loss.aggregation}, KL ${kl.coefficient}`
      : loss.use;
  return ['loss', `${what}, learning rate ${settingNumber(optimizer.learningRate)}, ${plural(minibatches * epochs, 'optimiser step')} per step`];
}

function teacherFacts({ algorithm: { teacher, kl }, backend, model }: Config): Fact[] {
  if (teacher === null) return [];
  const service = teacher.baseUrl ?? backend.baseUrl;
  const who = {
    embedded: [teacher.path ?? model.path, ...(teacher.adapter === null ? [] : [`with ${teacher.adapter}`])].join(' '),
    server: redactUrl(teacher.baseUrl ?? ''),
    tinker: `${teacher.model} at ${service === null ? 'the hosted Tinker' : redactUrl(service)}`,
    self: 'the policy itself',
    start: 'the policy at the start of the run',
  }[teacher.kind];
  const told = teacher.privileged === null ? '' : ', told more than the student';
  const how =
    teacher.as === 'kl'
      ? `KL ${kl.coefficient} to it`
      : `${teacher.coefficient} × ${teacher.beta === 1 ? 'reverse KL' : `Jensen-Shannon divergence (beta ${teacher.beta})`} as advantage`;
  return [['teacher', `${who}${told}; ${how}, ${teacher.withReward ? 'added to the reward' : 'without the reward'}`]];
}

type Lengths = Readonly<Record<'responseTokens' | 'contextTokens' | 'members' | 'window', number>>;

/** Of one rollout; either length may be infinite, and the window limits both together. */
function longestOf({ responseTokens, contextTokens, window }: Lengths): number {
  return Math.min(contextTokens + responseTokens, window);
}

function mostTokens(lengths: Lengths): number | null {
  const most = lengths.members === 0 ? 0 : lengths.members * longestOf(lengths);
  return Number.isFinite(most) ? most : null;
}

function lengthsText(lengths: Lengths): string {
  const { responseTokens, contextTokens, members, window } = lengths;
  const tokens = mostTokens(lengths);
  const most = tokens !== null && members > 0 ? `: at most ${countText(tokens)} tokens per step` : '';
  const generation = responseTokens < window ? `${countText(responseTokens)} new tokens per generation` : 'a generation may fill the window';
  if (longestOf(lengths) < window) return `${generation}, contexts up to ${countText(contextTokens)}${most}`;
  return `${generation}, contexts up to the model's window${Number.isFinite(window) ? ` of ${countText(window)}` : ''}${most}`;
}

function serverNeeds({ lora, rollouts, publish }: Config, hasImages: boolean): Fact {
  const images = hasImages ? IMAGE_FLAGS.map((flag) => ` ${flag.replace(/=(.*)$/, " '$1'")}`).join('') : '';
  const [flags, variables] = publish.inFlight ? [hasImages ? '' : ' --enable-scale-out', ' VLLM_SERVER_DEV_MODE=1'] : ['', ''];
  return [
    'server needs',
    `--enable-lora --max-lora-rank ${maxLoraRank(lora.rank)} --max-loras ${rollouts.maxStaleness + 2}${images}${flags} and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1${variables}`,
  ];
}
