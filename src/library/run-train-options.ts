/** The body of `train`: its options as a request, its callbacks as the host of a run. */
import { checkOptions, type OptionKinds } from '../core/check-options.ts';
import { suggestion } from '../core/closest-name.ts';
import { ConfigError } from '../core/errors.ts';
import { metricValue } from '../trainer/training-observer.ts';
import { assertEnvironment } from '../registry/load-environment.ts';
import { noPaint } from '../reports/text/paint.ts';
import { readTrainingSummary, type EndedRun } from '../reports/training/training-summary.ts';
import { type KeySchema, tableSchema } from '../schemas/config-keys.ts';
import { isObject } from '../schemas/is-object.ts';
import { camelKeys } from '../schemas/key-case.ts';
import { trainingConfigSchema } from '../schemas/training-config.ts';
import { finishedRun } from '../sessions/training/finished-run.ts';
import { resolveTraining, type TrainingRequest, type TrainingSetup } from '../sessions/training/resolve-training.ts';
import { runTraining, type TrainingHost, type TrainingWatch } from '../sessions/training/run-training.ts';
import type { ConfigLayer } from '../trainer/config/resolve-config.ts';
import { totalSteps } from '../trainer/config/training-schedule.ts';
import type { MetricsRow } from '../trainer/training-observer.ts';
import { redactSecrets, redactUrl } from '../transport/redact.ts';
import { type TransportSettings, withTransport } from '../transport/transport-settings.ts';
import { Callbacks } from './callbacks.ts';
import type { Trained, TrainOptions } from './train.ts';

const OPTIONS: OptionKinds<TrainOptions> = {
  environment: 'any',
  preset: 'text',
  settings: 'table',
  args: 'table',
  sft: 'textOrTexts',
  steps: 'number',
  output: 'text',
  resume: 'textOrFlag',
  allowChanges: 'flag',
  maxWaitMs: 'amount',
  signal: 'signal',
  variables: 'table',
  onStart: 'function',
  onStep: 'function',
  onEvaluation: 'function',
  onEvent: 'function',
  onNotice: 'function',
};

export async function runTrainOptions(options: TrainOptions): Promise<Trained> {
  checkOptions('train', options, OPTIONS);
  const callbacks = new Callbacks(options);
  return callbacks.through(async () => {
    const { setup, host } = await openedSetup('train', callbacks.options);
    return withTransport(trainingTransport(options, host), () => trained(callbacks.options, setup, host));
  });
}

/** The settings of all requests of a training. */
export function trainingTransport({ maxWaitMs }: TrainOptions, { variables }: OptionsHost): Partial<TransportSettings> {
  const names = { maxWait: 'maxWaitMs', maxConcurrent: 'rollouts.max_concurrent' };
  return { variables, names, ...(maxWaitMs !== undefined && { maxWaitMs }) };
}

async function trained(options: TrainOptions, setup: TrainingSetup, host: OptionsHost): Promise<Trained> {
  const { config } = setup;
  const finished = await finishedRun(setup);
  if (finished !== null) return trainedOf({ ...finished, config });
  const { redact, warn: note } = host;
  const ended = await runTraining(setup, {
    ...host,
    watch: async ({ path }) => {
      setup.notices.forEach(note);
      return watchOf(options, { setup, directory: path, note, redact });
    },
  });
  return trainedOf({ ...ended, config });
}

/** The parts of this process, from the options. */
type OptionsHost = Omit<TrainingHost, 'watch'>;

/** The resolved settings, and the parts of this process that the training uses; `name` is the function that was called. */
export async function openedSetup(name: string, options: TrainOptions): Promise<{ readonly setup: TrainingSetup; readonly host: OptionsHost }> {
  checkEnvironment(name, options);
  if (options.allowChanges === true && (options.resume ?? false) === false)
    throw new ConfigError('allowChanges needs resume: it allows changes to a run that is resumed');
  const { environment, signal = new AbortController().signal, onNotice } = options;
  const variables: NodeJS.ProcessEnv = { ...(options.variables ?? process.env) };
  const setup = await resolveTraining(requestOf(options), { variables, signal });
  const secrets = new Set(setup.secrets);
  const redact = (text: string) => redactSecrets(redactUrl(text), [...secrets]);
  const warn = (line: string) => onNotice?.(redact(line));
  return { setup, host: { variables, secrets, redact, signal, warn, ...(typeof environment === 'object' && { environment }) } };
}

function checkEnvironment(name: string, { environment, resume, args, settings }: TrainOptions): void {
  if (environment === undefined && (resume ?? false) === false)
    throw new ConfigError(`${name} needs an environment: give its name, its path or a loaded one, such as environment: 'search-r1'.`);
  if (environment === undefined || typeof environment === 'string') return;
  assertEnvironment(name, environment);
  if (args !== undefined || settings?.environment !== undefined)
    throw new ConfigError(
      `${name} takes arguments for an environment that it loads, and this one is loaded. Leave args and settings.environment out.`,
    );
  if (environment.images !== undefined)
    throw new ConfigError(`${name} keeps the images of an environment that it loads itself. Give ${environment.id} by its name or path.`);
}

function requestOf({ environment, preset, settings, args, sft, steps, output, resume = false, allowChanges = false }: TrainOptions): TrainingRequest {
  const layer = (source: string, table: ConfigLayer['table'] | null): ConfigLayer[] => (table === null ? [] : [{ source, table }]);
  return {
    target: typeof environment === 'string' ? environment : null,
    preset: preset ?? null,
    layers: [
      ...layer('environment', typeof environment === 'object' ? { environment: { id: environment.id } } : null),
      ...layer('settings', settings === undefined ? null : wireOf(settings, trainingConfigSchema, 'settings')),
      ...layer('args', args === undefined ? null : { environment: { args } }),
      ...layer('sft', sft === undefined ? null : { sft: { data: sft }, steps: 0 }),
      ...layer('steps', steps === undefined ? null : sft === undefined ? { steps } : { sft: { steps } }),
      ...layer('output', output === undefined ? null : { output_dir: output }),
    ],
    resume: resume === false ? null : { directory: resume === true ? null : resume, allowChanges, allow: 'pass allowChanges: true' },
  };
}

/** Settings in the form of the file. Throws ConfigError for an unknown name. */
function wireOf(settings: object, { properties = {} }: KeySchema, path: string): Record<string, unknown> {
  const keys = new Map(Object.keys(properties).map((key) => [Object.keys(camelKeys({ [key]: null }) as object)[0]!, key]));
  const entries = Object.entries(settings).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    entries.map(([name, value]: [string, unknown]) => {
      const key = keys.get(name);
      if (key === undefined)
        throw new ConfigError(`train has no setting ${path}.${name}${suggestion(name, keys.keys())}. Known are ${[...keys.keys()].join(', ')}.`);
      const table = tableSchema(properties[key]!);
      return [key, table !== null && isObject(value) ? wireOf(value, table, `${path}.${name}`) : value];
    }),
  );
}

interface Watched {
  readonly setup: TrainingSetup;
  readonly directory: string;
  readonly note: (line: string) => void;
  readonly redact: (text: string) => string;
}

function watchOf({ onStart, onStep, onEvaluation, onEvent }: TrainOptions, { setup, directory, note, redact }: Watched): TrainingWatch {
  const steps = totalSteps(setup.config);
  const value = metricValue;
  return {
    observer: {
      onStart: ({ step }) => onStart?.({ directory, step, steps }),
      onStep: (row) => onStep?.({ step: row.step, steps, reward: value(row, 'reward_mean'), loss: value(row, 'loss'), metrics: row.values }),
      onEvaluation: (row) => onEvaluation?.({ step: row.step, steps, ...interval(row), metrics: row.values }),
      onEvent: ({ step, kind, message }) => onEvent?.({ step, kind, message: redact(message) }),
    },
    note,
    warn: note,
    transcripts: { columns: 100, paint: noPaint, note: () => {} },
    close: () => {},
  };
}

function interval(row: MetricsRow): Record<'reward' | 'low' | 'high', number | null> {
  return { reward: metricValue(row, 'reward_mean'), low: metricValue(row, 'reward_low'), high: metricValue(row, 'reward_high') };
}

async function trainedOf(ended: EndedRun): Promise<Trained> {
  const { summary, rows } = await readTrainingSummary(ended);
  const { reason, message, step, resumable, directory, adapter } = ended.outcome;
  const bestAdapter = summary.best?.adapter ?? null;
  return { reason, message, step, resumable, directory, adapter, bestAdapter, metrics: rows, summary };
}
